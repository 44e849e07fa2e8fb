"""Each contract test runs for every call of every public op, on kernels of the host."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if find_spec("torch") else ["test_*"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        from contract_cases import cases  # noqa: PLC0415 (where there is torch)

        metafunc.parametrize("case", list(cases()), ids=str)


@pytest.fixture(autouse=True)
def kernels(request: pytest.FixtureRequest) -> None:
    """The kernels that compute the case's calls."""
    if "case" in request.fixturenames:
        request.getfixturevalue(request.getfixturevalue("case").host)
