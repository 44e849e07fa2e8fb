"""Cores and memory, as a machine or a container states them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tilewright.compile.building import longest_first
from tilewright.compile.jobs import available_cores, available_memory, bounded_jobs, unit_bytes
from tilewright.compile.planning import Unit

GIB = 1 << 30


@pytest.mark.parametrize(
    ("cores", "memory", "jobs"),
    [(2, 23 * GIB, 2), (16, 128 * GIB, 16), (64, 32 * GIB, 7), (16, 3 * GIB, 1), (16, 0, 1), (4, 9 * GIB, 2)],
)
def test_jobs_fit_cores_and_memory(cores: int, memory: int, jobs: int) -> None:
    assert bounded_jobs(cores, memory, 4 * GIB) == jobs


@pytest.mark.parametrize("arch", ["sm_100a", "sm_100f", "sm_103a", "sm_110a", "sm_120f", "sm_121a"])
@pytest.mark.parametrize(
    ("cores", "memory", "jobs"), [(16, 120 * GIB, 16), (2, 22 * GIB, 2), (16, 24 * GIB, 3)]
)
def test_units_of_blackwell_fit(cores: int, memory: int, jobs: int, arch: str) -> None:
    """What is free of a machine's 128 GiB, and of 24; a unit takes up to 5.6 GB."""
    assert bounded_jobs(cores, memory, unit_bytes([(arch, True)])) == jobs
    assert jobs * 5.6e9 < memory


def test_the_largest_unit_decides() -> None:
    hopper, blackwell, own = ("sm_90a", True), ("sm_120a", True), ("sm_90a", False)
    assert unit_bytes([hopper]) == unit_bytes([own, hopper]) == 4 * GIB
    assert unit_bytes([hopper, blackwell]) == unit_bytes([("sm_100f", True)]) == 6 * GIB
    assert unit_bytes([]) == 4 * GIB


def test_units_without_cutlass_take_every_core() -> None:
    """16 cores with 16 GiB compile Hopper's dense kernels as fast as with 64 GiB."""
    assert bounded_jobs(16, 16 * GIB, unit_bytes([("sm_90a", False)] * 600)) == 16


def test_units_with_cutlass_begin_first() -> None:
    """Each takes as long as twenty others: begun last, it would keep one core busy and the others idle."""
    nothing: Any = None
    kinds = (("a", False), ("b", True), ("c", False), ("d", True))
    units = [Unit(nothing, nothing, key, {}, None, cutlass=cutlass) for key, cutlass in kinds]
    assert [unit.key for unit in longest_first(units)] == ["b", "d", "a", "c"]


def machine(root: Path, cgroup: str, **files: str) -> Path:
    """A file system that states 64 GiB available, and `files` below sys/fs/cgroup."""
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {64 * GIB // 1024} kB\n")
    (root / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys" / "fs" / "cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_without_a_cgroup_memavailable_counts(tmp_path: Path) -> None:
    assert available_memory(machine(tmp_path, "")) == 64 * GIB


def test_a_cgroup_around_this_one_bounds_memory_and_cores(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/pod/worker\n",
        pod__worker__memory_DOT_max="max\n",
        pod__worker__memory_DOT_current="1\n",
        pod__memory_DOT_max=f"{8 * GIB}\n",
        pod__memory_DOT_current=f"{3 * GIB}\n",
        pod__memory_DOT_stat=f"anon 1\ninactive_file {GIB}\n",
        pod__cpu_DOT_max="150000 100000\n",
    )
    assert available_memory(root) == 6 * GIB
    assert available_cores(root) == min(2, len(os.sched_getaffinity(0)))


def test_a_container_whose_group_has_the_hosts_name(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/host/only\n", memory_DOT_max=f"{2 * GIB}\n", memory_DOT_current="0\n")
    assert available_memory(root) == 2 * GIB


def test_version_1(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "4:memory:/a\n3:cpu,cpuacct:/a\n",
        memory__a__memory_DOT_limit_in_bytes=f"{5 * GIB}\n",
        memory__a__memory_DOT_usage_in_bytes=f"{GIB}\n",
        memory__memory_DOT_limit_in_bytes="9223372036854771712\n",
        memory__memory_DOT_usage_in_bytes=f"{GIB}\n",
        cpu__a__cpu_DOT_cfs_quota_us="100000\n",
        cpu__a__cpu_DOT_cfs_period_us="100000\n",
    )
    assert available_memory(root) == 4 * GIB
    assert available_cores(root) == 1


def test_this_machine() -> None:
    assert available_cores() >= 1
    assert available_memory() > 0
