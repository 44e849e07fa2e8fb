"""Units that one process compiles: they share what Python and nvdisasm take to start, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_modules import PLAIN, TENSOR, Mini

from tilewright.base import paths
from tilewright.compile import runner, unit
from tilewright.compile.nvcc.disassembly import disassemble
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.planning import Planner
from tilewright.compile.store import Store
from tilewright.compile.unit import Job
from tilewright.errors import BuildError


@pytest.fixture
def jobs(mini: Mini, store: Store, toolchain: NvccToolchain) -> list[Job]:
    """Two kernels with tensor instructions, and one without between them."""
    table = mini.add("one", TENSOR).add("two", PLAIN).add("three", TENSOR).table()
    planner = Planner(toolchain, store, paths.include_dir())
    return [planner.kernel_job(planner.unit(table, table[name]), 2, []) for name in ("one", "two", "three")]


def compiled(job: Job, store: Store) -> Path:
    entry = store.entry(job.key)
    assert entry is not None
    return entry.object


def without_object(job: Job) -> Job:
    """What its compiler makes, says it, is an object."""
    return replace(job, command=["sh", "-c", f"echo none > kernel.o; echo kernel.o: {job.source} > kernel.d"])


def test_each_unit_has_its_own_code(jobs: list[Job], store: Store) -> None:
    assert [outcome.status for outcome in unit.run(jobs)] == ["built"] * 3
    objects = [compiled(job, store) for job in jobs]
    reports = [entry.report for job in jobs if (entry := store.entry(job.key)) is not None]
    assert [report["tensor_instructions"] for report in reports] == [
        {"HGMMA.64x8x16.F32.BF16": 2}, {}, {"HGMMA.64x8x16.F32.BF16": 2},
    ]  # fmt: skip
    assert [report["functions"] for report in reports] == [["one"], ["two"], ["three"]]
    apart = [disassemble(jobs[0].disassembler, [each])[0] for each in objects]
    assert disassemble(jobs[0].disassembler, objects) == apart
    assert [report["code_bytes"] for report in reports] == [
        sum(function.code_bytes for function in code.functions.values()) for code in apart
    ]
    assert apart[0].functions["one"].code_bytes > 0
    assert [report["machine_code"] for report in reports] == [code.digest for code in apart]
    assert [outcome.status for outcome in unit.run(jobs)] == ["shared"] * 3


def test_a_unit_that_fails_is_the_only_one(jobs: list[Job], store: Store) -> None:
    one, two, three = jobs
    outcomes = unit.run([one, replace(two, command=["sh", "-c", "echo 'x.cu(1): error: no'; exit 2"]), three])
    assert [outcome.status for outcome in outcomes] == ["built", "failed", "built"]
    assert outcomes[1].refused


def test_an_object_that_cannot_be_read_is_the_only_one(jobs: list[Job], store: Store) -> None:
    one, two, three = jobs
    with pytest.raises(BuildError):
        disassemble(one.disassembler, [Path(one.source)])
    outcomes = unit.run([one, without_object(two), three])
    assert [outcome.status for outcome in outcomes] == ["built", "failed", "built"]
    assert store.entry(two.key) is None
    assert not list((store.root / "tmp").iterdir())


def test_fewer_go_together_the_fewer_are_left() -> None:
    job = Job("", "", "kernel", "sm_90a", "", "", {}, [], [], "", "", 1, quick=True)
    many = [replace(job, name=str(index)) for index in range(200)]
    groups = list(runner._processes(many, 4))
    assert [job for group in groups for job in group] == many
    sizes = [len(group) for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 8
    assert sizes[-16:] == [1] * 16
    assert [len(group) for group in runner._processes(many[:12], 4)] == [1] * 12


def test_what_takes_minutes_or_is_of_another_target_or_compiler_is_by_itself() -> None:
    quick = Job("", "", "kernel", "sm_90a", "", "", {}, [], [], "", "", 1, quick=True)
    slow, other = replace(quick, quick=False), replace(quick, arch="sm_100f")
    compiled_otherwise = replace(other, compiler="cute_dsl")
    table = replace(quick, kind="table", arch="", quick=False)
    given = [slow, slow, quick, quick, quick, other, other, compiled_otherwise, table] + [table] * 92
    groups = list(runner._processes(given, 4))
    assert [len(group) for group in groups] == [1, 1, 3, 2, 1] + [1] * 93
