"""How many compilers may run at once: bounded by cores and by memory, whichever is tighter."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilewright.architectures import table
from tilewright.architectures.routing import Target

_GIB = 1 << 30

_OTHER_UNIT_BYTES = 4 * _GIB
_OWN_UNIT_BYTES = _GIB // 2  # of a unit without CUTLASS's headers: a lean kernel's takes 220 MB
_RESERVE_BYTES = _GIB // 2  # for everything else on the machine


def unit_bytes(units: Iterable[tuple[str, bool]]) -> int:
    """The memory to allow for one unit when these are compiled together: each one's target ("sm_90a"), and
    whether it includes CUTLASS's headers."""
    return max((_bytes_of(arch, cutlass) for arch, cutlass in units), default=_OTHER_UNIT_BYTES)


def _bytes_of(arch: str, cutlass: bool) -> int:
    if not cutlass:
        return _OWN_UNIT_BYTES
    architecture = table.of_capability(Target.parse(arch).capability)
    return _OTHER_UNIT_BYTES if architecture is None else architecture.cutlass.unit_gib * _GIB


def bounded_jobs(cores: int, memory: int, each: int) -> int:
    """At least 1, at most one a core and what fits in `memory` bytes at `each` bytes a unit."""
    return max(1, min(cores, (memory - _RESERVE_BYTES) // each))


def available_cores(root: Path = Path("/")) -> int:
    """Cores this process may use: its affinity, and its cgroup's quota rounded up."""
    cores = len(os.sched_getaffinity(0))
    for folder in _cgroups(root, "cpu"):
        quota = _quota(folder)
        if quota is not None:
            cores = min(cores, max(1, -(-quota[0] // quota[1])))
    return cores


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can be taken now: the system's MemAvailable, and what each enclosing cgroup still allows."""
    available = _mem_available(root / "proc" / "meminfo")
    for folder in _cgroups(root, "memory"):
        for limit_name, usage_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, usage = _number(folder / limit_name), _number(folder / usage_name)
            if limit is not None and usage is not None:
                available = min(available, max(0, limit - usage + _reclaimable(folder / "memory.stat")))
    return available


def _mem_available(meminfo: Path) -> int:
    try:
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """This process's cgroup and the ones around it, in version 2's tree and in version 1's."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            base = root / "sys" / "fs" / "cgroup"
        elif controller in controllers.split(","):
            base = root / "sys" / "fs" / "cgroup" / controller
        else:
            continue
        # Inside a container the name may be the host's: then only the mount's own root exists.
        inner = base / name.strip("/")
        while True:
            if inner.is_dir():
                yield inner
            if inner == base:
                break
            inner = inner.parent


def _quota(folder: Path) -> tuple[int, int] | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        limit, length = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        return (limit, length) if limit is not None and length and limit > 0 else None
    return None if quota == "max" else (int(quota), int(period))


def _reclaimable(stat: Path) -> int:
    """File pages a cgroup would give back when asked; they count as used."""
    try:
        numbers = dict(line.split() for line in stat.read_text().splitlines())
        return int(numbers.get("inactive_file", 0))
    except (OSError, ValueError):
        return 0


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
