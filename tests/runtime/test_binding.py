"""The binding, through TVM-FFI, with kernels that run on the host."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import tvm_ffi

from tilewright.errors import NotBuiltError
from tilewright.library import Library, header_abi, load

OPTIONS = (1, 1, 0, 1, 0, 1, 0, 132)


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
    split = (1, 1, 0, 1, 2, 4, 0, 132)
    assert library.workspace_bytes("host_bf16_tn_streamk", (16, 24, 8, 1), split) == 4 * 16 * 24 * 4


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
    with pytest.raises(ValueError, match="options holds 2"):
        library.launcher("host_bf16_tn", (1, 1))


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
