"""The binding, through TVM-FFI, with kernels that run on the host."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import tvm_ffi
from foreign_tensors import foreign

from tilewright.declarations.arguments import launchable, packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NotBuiltError
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import OUTPUTS, Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.libraries.library import Launcher, Library, header_abi, load

PROBLEM = Problem(16, 24, 8)
WHOLE = Tactic("host_bf16_tn")
SPLIT = Tactic("host_bf16_tn_streamk", decomposition="split_k", splits=4)
ABSENT = (None,) * 5  # bias, scale_a, scale_b, scale_result, amax
NUMBERS = (1.0, 0.0, None)  # alpha, beta, workspace


@pytest.fixture
def library(host_library: Path) -> Library:
    return load(host_library)


def operands(m: int = 16, n: int = 24, k: int = 8) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(m + n + k)
    a = torch.randn(m, k).bfloat16()
    b = torch.randn(n, k).bfloat16().t()
    return a, b, torch.full((m, n), float("nan"), dtype=torch.bfloat16)


def launcher(
    library: Library,
    tensors: dict[str, torch.Tensor],
    tactic: Tactic = WHOLE,
    problem: Problem = PROBLEM,
    **alignments: int,
) -> Launcher:
    """Of operands that lie as these, in the interface's order, and then alpha, beta and a workspace."""
    lie = [tensors.get(name) for name in INTERFACE.names]
    made = launchable(
        INTERFACE, problem, packed(INTERFACE, problem, tactic, 132), tensors=lie, alignments=alignments
    )
    return library.launcher(tactic.kernel, made)


def plain(library: Library, tactic: Tactic = WHOLE) -> Launcher:
    a, b, d = operands()
    return launcher(library, {"a": a, "b": b, "out": d}, tactic)


def test_lists_the_kernels_that_were_linked(host_library: Path) -> None:
    kernels = set(map(str, tvm_ffi.load_module(str(host_library)).kernels()))
    assert "host_bf16_tn" in kernels
    assert "host_absent" not in kernels


def test_attributes(host_library: Path) -> None:
    attributes = tvm_ffi.load_module(str(host_library)).attributes("host_bf16_tn")
    assert attributes["abi_version"] == header_abi()
    assert attributes["args_bytes"] == ctypes.sizeof(struct(INTERFACE))
    assert attributes["threads"] == 384
    assert attributes["smem_bytes"] == 100000


@pytest.mark.parametrize("name", ["host_absent", "no_such_kernel"])
def test_a_kernel_that_is_not_there(library: Library, name: str) -> None:
    with pytest.raises(KeyError, match=name):
        plain(library, Tactic(name))


def test_a_kernel_of_another_abi(library: Library) -> None:
    with pytest.raises(RuntimeError, match="ABI 77"):
        plain(library, Tactic("host_old_abi"))


def test_a_kernel_of_another_argument_struct(library: Library) -> None:
    own = ctypes.sizeof(struct(INTERFACE))
    with pytest.raises(
        RuntimeError, match=rf"\({own + 8} bytes of arguments\), its table .* \({own} bytes\)"
    ):
        plain(library, Tactic("host_other_struct"))


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(b"not a library")
    with pytest.raises(NotBuiltError, match=r"x\.so does not load"):
        Library(path)


def test_can_implement_and_workspace_touch_no_tensor(library: Library) -> None:
    whole, empty = (packed(INTERFACE, replace(PROBLEM, k=k), WHOLE, 132) for k in (8, 0))
    assert library.can_implement("host_bf16_tn", whole)
    assert not library.can_implement("host_bf16_tn", empty)
    assert library.workspace_bytes("host_bf16_tn", whole) == 0
    split = packed(INTERFACE, PROBLEM, SPLIT, 132)
    assert library.workspace_bytes("host_bf16_tn_streamk", split) == 4 * 16 * 24 * 4
    with pytest.raises(ValueError, match="does not take the problem"):
        library.workspace_bytes("host_bf16_tn", empty)
    with pytest.raises(ValueError, match="the arguments have 7 bytes"):
        library.can_implement("host_bf16_tn", bytes(7))


def test_computes(library: Library) -> None:
    a, b, d = operands()
    assert plain(library)(a, b, None, d, *ABSENT, 2.0, 0.0, None) == 0
    torch.testing.assert_close(d, (2 * a.double() @ b.double()).bfloat16())


def test_a_caller_says_by_name_what_its_calls_pass(library: Library) -> None:
    """In another order than the declaration's; an operand that is left out is absent, a number has its
    value."""
    a, b, d = operands()
    c = torch.ones_like(d)
    lie = [{"a": a, "b": b, "c": c, "out": d}.get(name) for name in INTERFACE.names]
    made = launchable(INTERFACE, PROBLEM, packed(INTERFACE, PROBLEM, WHOLE, 132), tensors=lie, alignments={},
        passed={"out": d, "c": d, "b": b, "a": a, "beta": 0.0}, numbers={"alpha": 2.0, "beta": 7.0},
    )  # fmt: skip
    launch = library.launcher(WHOLE.kernel, made)
    d.fill_(1.0)
    assert launch(d, d, b, a, 3.0, None) == 0  # c may be d: the twin is found by name, too
    torch.testing.assert_close(d, (2 * a.double() @ b.double() + 3.0).bfloat16())
    assert launch(d, d[:, :23], b, a, 3.0, None) == -201  # the second that is passed
    assert launch(a, d, b, d, 3.0, None) == -200
    with pytest.raises(TypeError, match="takes 6 arguments, not 7"):
        launch(d, d, b, a, 2.0, 3.0, None)


@pytest.mark.parametrize(
    ("passed", "message"),
    [("a b out", "calls pass no c, which this one has"), ("a b c out result", "gemm takes no result")],
)
def test_names_that_do_not_go_with_a_call(passed: str, message: str) -> None:
    a, b, d = operands()
    tensors = {"a": a, "b": b, "c": d.clone(), "out": d, "result": d}
    lie = [tensors.get(name) for name in INTERFACE.names]
    named = {name: tensors[name] for name in passed.split()}
    with pytest.raises(ValueError, match=message):
        launchable(
            INTERFACE,
            PROBLEM,
            packed(INTERFACE, PROBLEM, WHOLE, 132),
            tensors=lie,
            alignments={},
            passed=named,
        )


def test_arguments_that_are_no_tensors(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library)
    with pytest.raises(TypeError, match="takes 12 arguments, not 3"):
        launch(a, b, d)
    with pytest.raises(TypeError, match="an operand is a int"):
        launch(3, b, None, d, *ABSENT, *NUMBERS)
    assert launch(a, None, None, d, *ABSENT, *NUMBERS) == -201


def test_descriptions_that_lie_outside_the_struct_are_refused(library: Library) -> None:
    a, b, d = operands()
    lie = [{"a": a, "b": b, "out": d}.get(name) for name in INTERFACE.names]
    made = launchable(INTERFACE, PROBLEM, packed(INTERFACE, PROBLEM, WHOLE, 132), tensors=lie, alignments={})
    size = len(made.arguments)
    beyond = ((size - 4, *made.operands[0][1:]), *made.operands[1:])
    for wrong, message in [
        (made._replace(arguments=made.arguments[:-8]), f"{size - 8} bytes; {size} are wanted"),
        (made._replace(operands=beyond), "inside them"),
        (made._replace(numbers=(size,)), "inside them"),
        (made._replace(operands=((0, 16),)), "an operand of 2 numbers"),
        (made._replace(operands=(made.operands[0][:-1],)), "an operand of 15 numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            library.launcher("host_bf16_tn", wrong)


@pytest.mark.parametrize("which", ["a", "b", "c", "out", "bias"])
def test_tensors_of_another_type(library: Library, which: str) -> None:
    a, b, d = operands()
    tensors = {"a": a, "b": b, "c": d.clone(), "out": d, "bias": torch.zeros(24, dtype=torch.bfloat16)}
    launch = launcher(library, tensors)
    assert launch(*tensors.values(), *ABSENT[1:], *NUMBERS) == 0
    index = list(tensors).index(which)
    tensors[which] = tensors[which].half()
    assert launch(*tensors.values(), *ABSENT[1:], *NUMBERS) == -200 - index


@pytest.mark.parametrize(("types", "d"), [(types, d) for types, every in OUTPUTS.items() for d in every])
def test_tensors_of_every_type_are_launched(library: Library, types: tuple[str, str], d: str) -> None:
    """The kernel reads bytes and writes words within the tensors: only whether it is called is asked."""
    a, b = (torch.zeros(16, 16).to(dtype_of(name)) for name in types)
    out = torch.zeros(64, 64, dtype=dtype_of(d))
    tensors = (a[:8], b.t()[:, :8], out[:8, :8])
    problem = Problem(8, 8, 16, a=types[0], b=types[1], d=d)
    launch = launcher(
        library, dict(zip(("a", "b", "out"), tensors, strict=True)), Tactic("host_s8_tn"), problem
    )
    assert launch(tensors[0], tensors[1], None, tensors[2], *ABSENT, *NUMBERS) == 0


def test_a_workspace_that_does_not_do(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library, SPLIT)
    room = torch.empty(2 * 4 * 16 * 24 * 4 + 512, dtype=torch.uint8)
    aligned = room[-room.data_ptr() % 256 :]
    good = aligned[: 4 * 16 * 24 * 4]
    call = (a, b, None, d, *ABSENT, 1.0, 0.0)
    assert launch(*call, good) == 0
    assert launch(*call, None) == -2
    assert launch(*call, foreign(good[: good.numel() // 4], lanes=4)) == 0  # in vectors of four bytes
    for bad, message in [
        (good[:-1], "holds 6143 bytes; 6144"),
        (aligned[: 2 * good.numel() : 2], "holds 6144 bytes; 6144 contiguous"),
        (aligned[16 : 16 + good.numel()], "multiple of 256"),
    ]:
        with pytest.raises(ValueError, match=message):
            launch(*call, bad)
    with pytest.raises(TypeError, match="workspace is a int"):
        launch(*call, 5)


@pytest.mark.parametrize("which", ["a", "b", "out"])
def test_a_tensor_may_begin_behind_its_data(library: Library, which: str) -> None:
    """`byte_offset` of DLPack, as other frameworks use it: the address is the sum, and the sum is judged."""
    a, b, d = operands()
    tensors = {"a": a, "b": b, "out": d}
    launch = launcher(library, tensors)
    index = INTERFACE.names.index(which)

    def call(**others: object) -> int:
        given = {**tensors, **others}
        return launch(given["a"], given["b"], None, given["out"], *ABSENT, *NUMBERS)

    # The data that the offset is counted from holds other numbers, or nothing of this process.
    assert call(**{which: foreign(tensors[which], byte_offset=4096)}) == 0
    torch.testing.assert_close(d, a @ b, rtol=2**-7, atol=0.05)
    # `data` is aligned, and the first element is not; then the other way round.
    room = torch.zeros(tensors[which].numel() + 16, dtype=torch.bfloat16)
    start = -room.data_ptr() % 16 // 2
    shape = tensors[which].t().shape if which == "b" else tensors[which].shape
    for first, offset in ((start + 1, 2), (start + 8, 2)):
        view = room[first : first + tensors[which].numel()].view(shape)
        shifted = foreign(view.t() if which == "b" else view, byte_offset=offset)
        expected = -100 - index if first == start + 1 and which != "out" else 0
        assert call(**{which: shifted}) == expected


def test_operands_that_overlap_behind_their_data(library: Library) -> None:
    a, b, d = operands()
    room = torch.zeros(16 * 24 + 16 * 8, dtype=torch.bfloat16)
    a, d = room[: 16 * 8].view(16, 8), room[16 * 8 :].view(16, 24)
    launch = launcher(library, {"a": a, "b": b, "out": d})
    beside = foreign(d, byte_offset=2 * 16 * 8)  # its data are A's, and its elements are not
    assert launch(a, b, None, beside, *ABSENT, *NUMBERS) == 0
    inside = foreign(room[: 16 * 24].view(16, 24), byte_offset=2048)
    assert launch(a, b, None, inside, *ABSENT, *NUMBERS) == -1000 - 64 * INTERFACE.names.index("out")


def test_tensors_without_strides_are_contiguous(library: Library) -> None:
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d})
    packed = (foreign(a, strides=False), b, None, foreign(d, strides=False))
    assert launch(*packed, *ABSENT, *NUMBERS) == 0
    torch.testing.assert_close(d, a @ b, rtol=2**-7, atol=0.05)
    turned = foreign(b.t().contiguous().view(8, 24), strides=False)  # [8, 24] in order: not as B was planned
    assert launch(a, turned, None, d, *ABSENT, *NUMBERS) == -201


@pytest.mark.parametrize("which", ["a", "b", "out"])
def test_a_tensor_of_another_device(library: Library, which: str) -> None:
    """One of the same type has another number: its address means nothing to the planned one."""
    a, b, d = operands()
    tensors = {"a": a, "b": b, "out": d}
    launch = launcher(library, tensors)
    tensors[which] = foreign(tensors[which], device=1)
    index = INTERFACE.names.index(which)
    status = launch(tensors["a"], tensors["b"], None, tensors["out"], *ABSENT, *NUMBERS)
    assert status == -200 - index


def test_a_workspace_of_another_device(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library, SPLIT)
    room = torch.empty(4 * 16 * 24 * 4 + 256, dtype=torch.uint8)
    good = room[-room.data_ptr() % 256 :][: 4 * 16 * 24 * 4]
    call = (a, b, None, d, *ABSENT, 1.0, 0.0)
    assert launch(*call, foreign(good)) == 0
    with pytest.raises(ValueError, match="on device 1 of type 1; the launch goes to device 0 of type 1"):
        launch(*call, foreign(good, device=1))
    # Behind its data: the address counts, and what is before it does not.
    assert launch(*call, foreign(good, byte_offset=256)) == 0
    assert launch(*call, foreign(good, byte_offset=16)) == 0


def test_addresses_are_judged_at_every_call(library: Library) -> None:
    launch = plain(library)
    a, b, d = operands()
    shifted = torch.empty(16 * 8 + 1, dtype=torch.bfloat16)[1:].view(16, 8)
    assert launch(shifted, b, None, d, *ABSENT, *NUMBERS) == -100
    shifted = torch.empty(24 * 8 + 1, dtype=torch.bfloat16)[1:].view(24, 8)
    assert launch(a, shifted.t(), None, d, *ABSENT, *NUMBERS) == -101
    whole = torch.empty(16 * 24 + 8, dtype=torch.bfloat16)
    inside, out = whole[:128].view(16, 8), whole[8:].view(16, 24)
    written = 64 * INTERFACE.names.index("out")
    assert launch(inside, b, None, out, *ABSENT, *NUMBERS) == -1000 - written
    adding = launcher(library, {"a": a, "b": b, "c": d, "out": d})
    assert adding(a, b, d, d, *ABSENT, 1.0, 1.0, None) == 0
    shifted_c = whole[:384].view(16, 24)
    assert adding(a, b, shifted_c, out, *ABSENT, 1.0, 1.0, None) == -1002 - written


def test_c_at_the_place_of_d_with_other_strides_is_no_twin(library: Library) -> None:
    """Same address and rows at another distance: other elements of C lie where D is written."""
    a, b, _ = operands()
    room = torch.zeros(16 * 32, dtype=torch.bfloat16)
    c, d = room.view(16, 32)[:, :24], room[: 16 * 24].view(16, 24)
    launch = launcher(library, {"a": a, "b": b, "c": c, "out": d})
    assert launch(a, b, c, d, *ABSENT, 1.0, 1.0, None) == -1002 - 64 * 3
    batch = torch.zeros(2, 16, 24, dtype=torch.bfloat16)
    a, b = a.expand(2, 16, 8), b.expand(2, 8, 24)
    c = batch[:1].expand(2, 16, 24)  # one matrix for both
    launch = launcher(library, {"a": a, "b": b, "c": c, "out": batch}, problem=replace(PROBLEM, batch=2))
    assert launch(a, b, c, batch, *ABSENT, 1.0, 1.0, None) == -1002 - 64 * 3


def test_a_kernel_may_ask_for_more_than_its_interface(library: Library) -> None:
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d}, out=64)
    room = torch.empty(16 * 24 + 64, dtype=torch.bfloat16)
    start = (-room.data_ptr() % 64) // 2
    at = [room[start + offset :][: 16 * 24].view(16, 24) for offset in (0, 16)]
    assert launch(a, b, None, at[0], *ABSENT, *NUMBERS) == 0
    assert launch(a, b, None, at[1], *ABSENT, *NUMBERS) == -103


def test_a_launcher_takes_what_lies_as_it_was_made_for(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library)
    rest = (*ABSENT, *NUMBERS)
    assert launch(a, b, None, d, *rest) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())
    wider = torch.zeros(16, 16).bfloat16()[:, :8]
    for status, call in (
        (-200, (a[:8], b, None, d)),
        (-200, (wider, b, None, d)),
        (-200, (a.unsqueeze(0), b, None, d)),
        (-201, (a, b.contiguous(), None, d)),
        (-202, (a, b, d, d)),
        (-203, (a, b, None, d.t().contiguous().t())),
    ):
        assert launch(*call, *rest) == status


def test_packed_operands_have_any_shape_and_no_gaps(library: Library) -> None:
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d, "scale_a": torch.ones(())})
    call = (a, b, None, d, None)
    assert launch(*call, torch.full((1, 1), 2.0), *ABSENT[2:], *NUMBERS) == 0
    torch.testing.assert_close(d, (2 * a.double() @ b.double()).bfloat16())
    assert launch(*call, torch.ones(2), *ABSENT[2:], *NUMBERS) == -205
    bias = torch.zeros(48, dtype=torch.bfloat16)
    launch = launcher(library, {"a": a, "b": b, "out": d, "bias": bias[:24]})
    assert launch(*call[:4], bias[24:], *ABSENT[1:], *NUMBERS) == 0
    assert launch(*call[:4], bias[::2], *ABSENT[1:], *NUMBERS) == -204


def test_strides_of_extents_of_1_mean_nothing(library: Library) -> None:
    a, b, d = operands(m=1)
    problem = replace(PROBLEM, m=1)
    launch = launcher(library, {"a": a.as_strided((1, 8), (5, 1)), "b": b, "out": d}, problem=problem)
    assert launch(a.as_strided((1, 8), (3, 1)), b, None, d, *ABSENT, *NUMBERS) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())


def test_tensors_without_memory(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library)
    hollow = torch.zeros_like(a)
    hollow.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="operand 0 has no memory"):
        launch(hollow, b, None, d, *ABSENT, *NUMBERS)


def test_operands_without_elements_need_no_memory(library: Library) -> None:
    """torch gives them the address 0. They are contiguous whatever their shape."""
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d, "scale_a": torch.empty(0)})
    for scale in (torch.empty(0), torch.empty(2, 0)):
        assert launch(a, b, None, d, None, scale, *ABSENT[2:], *NUMBERS) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())


def test_the_batch_stride_of_one_matrix_is_0() -> None:
    """Frameworks set it to anything, and a tensor map takes no odd one."""
    a, b, d = operands()
    lie = {"a": a.as_strided((1, 16, 8), (5, 8, 1)), "b": b, "out": d}
    tensors = [lie.get(name) for name in INTERFACE.names]
    arguments = packed(INTERFACE, PROBLEM, WHOLE, 132)
    made = launchable(INTERFACE, PROBLEM, arguments, tensors=tensors, alignments={})
    assert struct(INTERFACE).from_buffer_copy(made.arguments).batch_stride_a == 0
