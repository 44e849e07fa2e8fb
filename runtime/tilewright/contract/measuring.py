"""What families are measured with: operands of every problem, and a check that sees what is not right."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.declarations import catalog
from tilewright.errors import WrongResultError
from tilewright.tools import measuring


def test_operands_are_made_computed_and_checked(
    measured: tuple[FamilyCalls, Any], request: pytest.FixtureRequest
) -> None:
    calls, problem = measured
    request.getfixturevalue(calls.kernels)
    of_family = catalog.family_module(calls.family, "measuring")
    first, second = measuring.copies(of_family.make(problem, torch.Generator().manual_seed(0)), 2)
    error = measuring.checked(first)
    assert measuring.checked(second) == error < 0.3, first.error_text.format(error)
    first.poison()
    with pytest.raises(WrongResultError):
        first.check()
    peer = measuring.peer_of(of_family, problem)
    if peer is not None:
        with contextlib.suppress(NotImplementedError):  # torch may have the function for GPUs alone
            peer[1](second)
