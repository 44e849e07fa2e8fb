"""Each contract test runs for every call of every public op (`case`), or for one call of each op
(`first_case`), on kernels of the host."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if find_spec("torch") else ["test_*"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in {"case", "first_case"} & {*metafunc.fixturenames}:
        from contract_cases import cases, first_cases  # noqa: PLC0415 (where there is torch)

        metafunc.parametrize(name, list(cases() if name == "case" else first_cases()), ids=str)


@pytest.fixture(autouse=True)
def kernels(request: pytest.FixtureRequest) -> None:
    """The kernels that compute the case's calls."""
    for name in {"case", "first_case"} & {*request.fixturenames}:
        request.getfixturevalue(request.getfixturevalue(name).host)
