"""All tests of the contract: a test module with a `CONTRACT` imports everything from here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest

from tilewright.contract import TESTS
from tilewright.contract.cases import FamilyCalls
from tilewright.contract.host import host_kernels

_tests: dict[str, Any] = {
    name: test
    for module in TESTS
    for name, test in vars(import_module(f"tilewright.contract.{module}")).items()
    if name.startswith("test_")
}
globals().update(_tests)
__all__ = ["FamilyCalls", "host_kernels", "kernels_of_the_case", "pytest_generate_tests"]
__all__ += list(_tests)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test of each family, call, or problem that the test module's CONTRACT names."""
    contract: Sequence[FamilyCalls] = metafunc.module.CONTRACT
    for name in metafunc.fixturenames:
        if name == "family":
            metafunc.parametrize(name, [calls.family for calls in contract])
        elif name == "family_calls":
            metafunc.parametrize(name, contract, ids=str)
        elif name == "case":
            metafunc.parametrize(name, [case for calls in contract for case in calls.cases()], ids=str)
        elif name == "first_case":
            metafunc.parametrize(name, [case for calls in contract for case in calls.first_cases()], ids=str)
        elif name == "measured":
            problems = [(calls, problem) for calls in contract for problem in calls.measured]
            metafunc.parametrize(name, problems, ids=[str(problem) for _, problem in problems])


@pytest.fixture(autouse=True)
def kernels_of_the_case(request: pytest.FixtureRequest) -> None:
    """The kernels that compute the case's calls."""
    for name in {"case", "first_case"} & {*request.fixturenames}:
        request.getfixturevalue(request.getfixturevalue(name).kernels)
