"""Kernels compiled with nvcc, once a session."""

from __future__ import annotations

import pytest
from compiled_kernels import KERNELS, STREAM_K, TABLES, TWO_SM, ULTRA, Compiled

from tilewright.compile.building import build
from tilewright.compile.store import Store


@pytest.fixture(scope="session")
def compiled() -> dict[str, Compiled]:
    """All of KERNELS, with their modules' libraries, in the build cache of whoever runs this."""
    store = Store()
    report = build(TABLES, frozenset(KERNELS), store=store, strict=True)
    report.raise_for_failures()
    libraries = {library.module: library.path for library in report.libraries}
    actual = {}
    for table in TABLES:
        for row in report.to_json()["kernels"]:
            if row["module"] == table.module:
                entry = store.entry(row["key"])
                assert entry is not None
                name = row["name"]
                actual[name] = Compiled(table, table[name], row, libraries[table.module], entry.object)
    assert set(actual) == set(KERNELS)
    return actual


@pytest.fixture
def two_sm(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[TWO_SM]


@pytest.fixture
def ultra(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[ULTRA]


@pytest.fixture
def stream_k(compiled: dict[str, Compiled]) -> Compiled:
    return compiled[STREAM_K]
