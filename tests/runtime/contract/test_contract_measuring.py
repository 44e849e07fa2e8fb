"""What families are measured with: operands of every problem, and a check that sees what is not right."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from contract_cases import MODULES

from tilewright.base import plugins
from tilewright.declarations import catalog
from tilewright.errors import WrongResultError
from tilewright.tools import measuring

PROBLEMS = [(name, problem) for name, one in MODULES.items() for problem in getattr(one, "MEASURED", ())]


@pytest.mark.parametrize(("family", "problem"), PROBLEMS, ids=map(str, (one for _, one in PROBLEMS)))
def test_operands_are_made_computed_and_checked(
    family: str, problem: Any, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(MODULES[family].HOST)
    of_family = catalog.part(family, "measuring")
    first, second = measuring.copies(of_family.make(problem, torch.Generator().manual_seed(0)), 2)
    error = measuring.checked(first)
    assert measuring.checked(second) == error < 0.3, first.error_text.format(error)
    first.poison()
    with pytest.raises(WrongResultError):
        first.check()
    peer = measuring.peer_of(of_family, problem)
    assert peer is None or callable(peer[1])


def test_every_family_that_comes_with_tilewright_is_measured() -> None:
    assert {family for family, _ in PROBLEMS} == {
        name for name in catalog.names() if name not in plugins.families()
    }
