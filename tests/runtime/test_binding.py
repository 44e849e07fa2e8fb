"""The binding, through TVM-FFI, with kernels that run on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import tvm_ffi

from tilewright.errors import NotBuiltError
from tilewright.library import Library, header_abi, load
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.arguments import OPERAND_NAMES, OUTPUT_DTYPES
from tilewright.ops.gemm.problem import OUTPUTS, Problem

BF16 = 4 * 256 + 16
OPTIONS = (0, 1, 0, 1, 0, 0, 0, 0, 0, 132, 1, 1, BF16, BF16, BF16)
SPLIT = (0, 1, 2, 4, 0, 0, 0, 0, 0, 132, 1, 1, BF16, BF16, BF16)


@pytest.fixture
def library(host_library: Path) -> Library:
    return load(host_library)


def operands(m: int = 16, n: int = 24, k: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k).bfloat16()
    b = torch.randn(n, k).bfloat16().t()
    return a, b, torch.full((m, n), float("nan"), dtype=torch.bfloat16)


def test_lists_the_kernels_that_were_linked(host_library: Path) -> None:
    kernels = set(map(str, tvm_ffi.load_module(str(host_library)).kernels()))
    assert "host_bf16_tn" in kernels
    assert "host_absent" not in kernels


def test_attributes(host_library: Path) -> None:
    attributes = tvm_ffi.load_module(str(host_library)).attributes("host_bf16_tn")
    assert attributes["abi_version"] == header_abi()
    assert attributes["threads"] == 384
    assert attributes["smem_bytes"] == 100000


@pytest.mark.parametrize("name", ["host_absent", "no_such_kernel"])
def test_a_kernel_that_is_not_there(library: Library, name: str) -> None:
    with pytest.raises(KeyError, match=name):
        library.launcher(name, OPTIONS)


def test_a_kernel_of_another_abi(library: Library) -> None:
    with pytest.raises(RuntimeError, match="ABI 77"):
        library.launcher("host_old_abi", OPTIONS)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(b"not a library")
    with pytest.raises(NotBuiltError, match=r"x\.so does not load"):
        Library(path)


def test_can_implement_and_workspace_touch_no_tensor(library: Library) -> None:
    assert library.can_implement("host_bf16_tn", (16, 24, 8, 1), OPTIONS)
    assert not library.can_implement("host_bf16_tn", (16, 24, 0, 1), OPTIONS)
    assert library.workspace_bytes("host_bf16_tn", (16, 24, 8, 1), OPTIONS) == 0
    assert library.workspace_bytes("host_bf16_tn_streamk", (16, 24, 8, 1), SPLIT) == 4 * 16 * 24 * 4


def test_computes(library: Library) -> None:
    a, b, d = operands()
    status = library.launcher("host_bf16_tn", OPTIONS)(a, b, None, d, None, None, None, 2.0, 0.0, None)
    assert status == 0
    torch.testing.assert_close(d, (2 * a.double() @ b.double()).bfloat16())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, d: (a[:, :4], b, d), "b is"),
        (lambda a, b, d: (a, b.contiguous(), d), "b has stride 24"),
        (lambda a, b, d: (a, b, d[:4]), "a is"),
        (lambda a, b, d: (a, b, d.t()), "d has stride"),
        (lambda a, b, d: (a[0], b, d), "a has 1 dimensions"),
    ],
)
def test_tensors_that_do_not_fit_together(library: Library, change, message: str) -> None:
    a, b, d = change(*operands())
    with pytest.raises(ValueError, match=message):
        library.launcher("host_bf16_tn", OPTIONS)(a, b, None, d, None, None, None, 1.0, 0.0, None)


def test_wrong_arguments(library: Library) -> None:
    a, b, d = operands()
    launch = library.launcher("host_bf16_tn", OPTIONS)
    with pytest.raises(TypeError, match="10 arguments"):
        launch(a, b, d)
    with pytest.raises(TypeError, match="b is None"):
        launch(a, None, None, d, None, None, None, 1.0, 0.0, None)
    with pytest.raises(TypeError, match="a is a int"):
        launch(3, b, None, d, None, None, None, 1.0, 0.0, None)
    with pytest.raises(ValueError, match="scale_a is not one float32"):
        launch(a, b, None, d, None, torch.ones(2), None, 1.0, 0.0, None)
    with pytest.raises(ValueError, match="beta is 1"):
        launch(a, b, None, d, None, None, None, 1.0, 1.0, None)
    with pytest.raises(ValueError, match="options holds 2 numbers; 15"):
        library.launcher("host_bf16_tn", (1, 1))


@pytest.mark.parametrize("which", ["a", "b", "c", "d", "bias"])
def test_tensors_of_another_type(library: Library, which: str) -> None:
    a, b, d = operands()
    tensors = {"a": a, "b": b, "c": d.clone(), "d": d, "bias": torch.zeros(24, dtype=torch.bfloat16)}
    launch = library.launcher("host_bf16_tn", OPTIONS)
    assert launch(*tensors.values(), None, None, 1.0, 0.0, None) == 0
    tensors[which] = tensors[which].half()
    with pytest.raises(TypeError, match=f"{which} is float16; bfloat16 is wanted"):
        launch(*tensors.values(), None, None, 1.0, 0.0, None)


@pytest.mark.parametrize(("types", "d"), [(types, d) for types, every in OUTPUTS.items() for d in every])
def test_the_types_of_tensors_are_those_that_tactics_name(
    library: Library, types: tuple[str, str], d: str
) -> None:
    """The kernel reads bytes and writes words within the tensors: only whether it is called is asked."""
    dtypes = {name: dtype for dtype, name in OPERAND_NAMES.items()}
    problem = Problem(16, 16, 16, a=types[0], b=types[1], d=d)
    a, b = (torch.zeros(16, 16).to(dtypes[name]) for name in types)
    out = torch.zeros(16, 16, dtype=OUTPUT_DTYPES[d])
    launch = library.launcher("host_s8_tn", problem.options(Tactic("host_s8_tn"), 132))
    assert launch(a[:8], b.t()[:, :8], None, out[:8, :8], None, None, None, 1.0, 0.0, None) == 0


def test_a_workspace_that_does_not_do(library: Library) -> None:
    a, b, d = operands()
    launch = library.launcher("host_bf16_tn_streamk", SPLIT)
    room = torch.empty(4 * 16 * 24 * 4 + 512, dtype=torch.uint8)
    aligned = room[-room.data_ptr() % 256 :]
    good = aligned[: 4 * 16 * 24 * 4]
    assert launch(a, b, None, d, None, None, None, 1.0, 0.0, good) == 0
    assert launch(a, b, None, d, None, None, None, 1.0, 0.0, None) == -2
    for bad, message in [
        (good[:-1], "holds 6143 bytes; 6144"),
        (aligned[: 2 * good.numel() : 2], "contiguous"),
        (aligned[16 : 16 + good.numel()], "multiple of 256"),
    ]:
        with pytest.raises(ValueError, match=message):
            launch(a, b, None, d, None, None, None, 1.0, 0.0, bad)
    with pytest.raises(TypeError, match="workspace is a int"):
        launch(a, b, None, d, None, None, None, 1.0, 0.0, 5)


def test_addresses_are_judged_at_every_call(library: Library) -> None:
    launch = library.launcher("host_bf16_tn", OPTIONS)
    a, b, d = operands()
    shifted = torch.empty(16 * 8 + 1, dtype=torch.bfloat16)[1:].view(16, 8)
    assert launch(shifted, b, None, d, None, None, None, 1.0, 0.0, None) == -16
    assert launch(a, shifted.t(), None, d[:, :16].contiguous(), None, None, None, 1.0, 0.0, None) == -17
    whole = torch.empty(16 * 24 + 8, dtype=torch.bfloat16)
    inside, out = whole[:128].view(16, 8), whole[8:].view(16, 24)
    assert launch(inside, b, None, out, None, None, None, 1.0, 0.0, None) == -32
    assert launch(a, b, d, d, None, None, None, 1.0, 0.0, None) == 0
    shifted_c = whole[:384].view(16, 24)
    assert launch(a, b, shifted_c, out, None, None, None, 1.0, 1.0, None) == -34


def layout(tensor: torch.Tensor) -> tuple[int, ...]:
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (0, tensor.dim(), *(number for pair in pairs for number in pair))


def test_a_launcher_fixed_to_layouts(library: Library) -> None:
    a, b, d = operands()
    layouts = (layout(a), layout(b), (), layout(d), (), (), ())
    launch = library.fixed(library.launcher("host_bf16_tn", OPTIONS), layouts)
    rest = (None, None, None, 1.0, 0.0, None)
    assert launch(a, b, None, d, *rest) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())
    wider = torch.zeros(16, 16).bfloat16()[:, :8]
    for status, call in (
        (-48, (a[:8], b, None, d)),
        (-48, (wider, b, None, d)),
        (-48, (a.unsqueeze(0), b, None, d)),
        (-49, (a, b.contiguous(), None, d)),
        (-50, (a, b, d, d)),
        (-51, (a, b, None, d.t().contiguous().t())),
    ):
        assert launch(*call, *rest) == status
    with pytest.raises(TypeError, match="a launcher of 7 operands"):
        launch(a, b)
    with pytest.raises(TypeError, match="an operand is a int"):
        launch(3, b, None, d, *rest)
    with pytest.raises(ValueError, match="a layout holds 3 numbers"):
        library.fixed(library.launcher("host_bf16_tn", OPTIONS), ((0, 2, 16),))


def test_strides_of_extents_of_1_mean_nothing(library: Library) -> None:
    a, b, d = operands(m=1)
    launch = library.fixed(library.launcher("host_bf16_tn", OPTIONS), (layout(a), layout(b), (), layout(d)))
    rest = (None, None, None, 1.0, 0.0, None)
    assert launch(a.as_strided((1, 8), (3, 1)), b, None, d, *rest) == 0


def test_tensors_without_memory(library: Library) -> None:
    a, b, d = operands()
    launch = library.launcher("host_bf16_tn", OPTIONS)
    hollow = torch.zeros_like(a)
    hollow.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="operand 0 has no memory"):
        launch(hollow, b, None, d, None, None, None, 1.0, 0.0, None)
