"""Whether a kernel waits for the one before it, with programmatic launch.

A kernel that lets its successor start at once writes an operand long after that. Chains of our own kernels
show little: one whose thread blocks fill the SMs, or that lets nobody start early, hides a successor that
does not wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch

LATE_NANOSECONDS = 150_000  # longer than the host takes for an op, and the device to start it
_PROGRAMS, _BLOCK = 8, 1024  # few thread blocks, so that most SMs are free
_POISON = 0xFF  # bytes of it are NaN in every type but FP4 and integers, of which they are -6 and -1


def check_waits(
    operands: Mapping[str, torch.Tensor],
    outs: Mapping[str, torch.Tensor],
    call: Callable[[], object],
    check: Callable[[str], None],
) -> None:
    """Calls an op with each of its operands written late, and with what was in its results read late.

    `call` runs the op on these very tensors; `check` compares the results, given what was late. The results
    are poisoned as the caller has them; they are so again before each call. An operand is written with all
    that its memory holds, so that what lies around it stays, and is poison until then.
    """
    copy = _late_copy()
    blank = {name: _memory(out).clone() for name, out in outs.items()}

    def run(late: str, source: torch.Tensor, target: torch.Tensor) -> None:
        for name, out in outs.items():
            _memory(out).copy_(blank[name])
        torch.cuda.synchronize()
        copy(source, target)
        call()
        check(late)

    call()  # what a first call does takes longer than a kernel can be late
    for name, operand in operands.items():
        room = _memory(operand)
        kept = room.clone()
        room.fill_(_POISON)
        run(f"{name} written late", kept, room)
    for name, out in outs.items():
        read = torch.empty_like(blank[name])
        run(f"{name} read late", _memory(out), read)
        assert torch.equal(read, blank[name]), f"{name} was written while the kernel before still read it"


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of all that a tensor's storage holds."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def _late_copy() -> Callable[[torch.Tensor, torch.Tensor], None]:
    """A kernel that copies bytes, late; compiled by the first call."""
    triton = pytest.importorskip("triton", reason="torch's Triton compiles the kernel that writes late")
    from late_copy_kernel import late_copy  # noqa: PLC0415 (it imports Triton)

    def copy(source: torch.Tensor, target: torch.Tensor) -> None:
        count = source.numel()
        late_copy[(_PROGRAMS,)](source, target, count, LATE_NANOSECONDS, block=_BLOCK)

    assert triton
    warm = torch.zeros(_BLOCK, dtype=torch.uint8, device="cuda")
    copy(warm, torch.empty_like(warm))
    return copy
