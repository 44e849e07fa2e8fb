"""Products whose callers promise that B is constant: which kernels they run, and what the build allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.architectures.device import H200
from tilewright.compile.nvcc import waits
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry

CONSTANT = [record for record in Registry().kernels("grouped_gemm") if record.config["constant_b"]]
PROMISED = Problem(16, 4096, 7168, constant_b=True)
LOAD = {"kind": "early_access", "opcode": "UTMALDG.3D"}
REASON = "B is constant"


def test_there_are_such_kernels_for_few_rows() -> None:
    assert len(CONSTANT) >= 4
    assert all(record.early_loads for record in CONSTANT)
    others = [record for record in Registry().kernels("grouped_gemm") if not record.config["constant_b"]]
    assert not any(record.early_loads for record in others)


@pytest.mark.parametrize("record", CONSTANT, ids=lambda record: record.name)
def test_only_a_promise_lets_them_run(record) -> None:  # type: ignore[no-untyped-def]
    tactic = Tactic(record.name)
    assert FAMILY.misfit_tactic(tactic, record, PROMISED) is None
    reason = FAMILY.misfit_tactic(tactic, record, replace(PROMISED, constant_b=False))
    assert reason is not None
    assert "no caller says that B is constant" in reason


@pytest.mark.parametrize("m", [1, 7, 16, 48])
def test_a_promise_chooses_them(m: int) -> None:
    registry = Registry()
    records = registry.route("grouped_gemm", H200)
    problem = replace(PROMISED, m=m)
    chosen = {
        promised: FAMILY.rank(records, replace(problem, constant_b=promised), H200)[0].tactic.kernel
        for promised in (True, False)
    }
    assert chosen[True] in {record.name for record in CONSTANT}
    assert chosen[False] not in {record.name for record in CONSTANT}


def test_a_promise_allows_all_other_kernels_too() -> None:
    records = [
        record for record in Registry().kernels("grouped_gemm")
        if record.config["scales"] == "128x128" and record.config["d"] == "bf16" and record.arch == "sm_90a"
    ]  # fmt: skip
    for record in records:
        assert FAMILY.misfit_kind(record, PROMISED.kind) is None


def test_products_of_groups_run_none() -> None:
    """Their ops have no such argument."""
    for grouping in ("row_index", "ends", "rows_valid"):
        for promised in (True, False):
            problem = Problem(1024, 4096, 7168, groups=4, grouping=grouping, constant_b=promised)
            assert all(FAMILY.misfit_kind(record, problem.kind) for record in CONSTANT)


def test_a_build_allows_bulk_loads_alone_and_only_where_a_row_says_so() -> None:
    def of(hazard: dict[str, str], early_loads: str) -> str:
        return waits.exception(hazard, "sm_90a", False, early_loads=early_loads)

    assert of(LOAD, REASON) == REASON
    assert of(LOAD | {"opcode": "UTMALDG.3D.MULTICAST"}, REASON) == REASON
    assert not of(LOAD, "")
    for opcode in ("LDG.E", "STG.E", "UTMASTG.3D", "UTMAREDG.3D", "ATOMG", "UBLKCP"):
        assert not of(LOAD | {"opcode": opcode}, REASON), opcode
    assert not of({"kind": "early_release", "opcode": "UTMALDG.3D"}, REASON)
