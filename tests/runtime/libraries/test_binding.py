"""The binding, through TVM-FFI, with kernels that run on the host."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import tvm_ffi
from foreign_tensors import foreign
from host_launches import ABSENT, NUMBERS, PROBLEM, SPLIT, WHOLE, launcher, operands, plain

from tilewright.declarations.arguments import launchable, packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NotBuiltError
from tilewright.families.gemm.interface import INTERFACE
from tilewright.libraries.library import Library, header_abi


def test_lists_the_kernels_that_were_linked(host_library: Path) -> None:
    kernels = set(map(str, tvm_ffi.load_module(str(host_library)).kernels()))
    assert "host_bf16_tn" in kernels
    assert "host_absent" not in kernels


def test_a_kernels_attributes_are_read(host_library: Path) -> None:
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


def test_a_launcher_computes_the_product(library: Library) -> None:
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
    [
        ("a b out", "expected the names of all operands, got none for c"),
        ("a b c out result", "gemm has no operand or number named result"),
    ],
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
