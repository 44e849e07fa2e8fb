"""The points of a report of tuned files: the problems, each with the GPU's limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.architectures.device import DeviceProperties
from tilewright.errors import TilewrightError
from tilewright.selection import tuned_files

if TYPE_CHECKING:
    from tilewright.selection.family import Family

COLUMNS = (
    "problem", "tactic", "us", "TFLOP/s", "GB/s", "FLOP/byte", "bound by", "share of the roof",
)  # fmt: skip


class ReportError(TilewrightError):
    """A report cannot be drawn: matplotlib is missing, or there is nothing to draw."""

    exit_code = 2


@dataclass(frozen=True)
class Point:
    """A tuned problem beside what the GPU could do. Rates are a second."""

    problem: Any
    kind: str  # for a legend
    tactic: str
    seconds: float
    flops: float | None  # of the whole problem; None if the family does not multiply
    bytes: int
    bandwidth: float  # the memory's rated bytes per second
    peak: float | None  # the tensor cores' rated operations per second

    @property
    def intensity(self) -> float | None:
        """Operations to a byte."""
        return None if self.flops is None else self.flops / self.bytes

    @property
    def roof_seconds(self) -> float:
        """The least bytes that the problem moves."""
        return max(self.bytes / self.bandwidth, self.flops / self.peak if self.flops and self.peak else 0.0)

    @property
    def bound(self) -> str:
        return "memory" if self.roof_seconds == self.bytes / self.bandwidth else "math"

    def cells(self) -> list[str]:
        """The texts of the cells, in the order of `COLUMNS`."""
        rate = "-" if self.flops is None else f"{self.flops / self.seconds * 1e-12:.1f}"
        intensity = "-" if self.intensity is None else f"{self.intensity:.1f}"
        return [
            str(self.problem),
            self.tactic,
            f"{self.seconds * 1e6:.2f}",
            rate,
            f"{self.bytes / self.seconds * 1e-9:.0f}",
            intensity,
            self.bound,
            f"{self.roof_seconds / self.seconds:.1%}",
        ]


def points(
    read: Sequence[tuned_files.TunedFile], family: Family[Any], device: DeviceProperties
) -> Iterator[Point]:
    """The points of a family's files, by kind, then in the order of the files. If two entries have one
    problem, the first counts."""
    seen = set()
    for section in (section for file in read for section in file.sections):
        kind = tuned_files.whole_kind(family, section.kind)
        if kind is None:  # a field that problems no longer have
            continue
        for row in section.rows:
            if not tuned_files.is_row(row, family):
                continue
            problem = family.problem(**kind, **{name: row[name] for name in family.extents})
            if problem not in seen:
                seen.add(problem)
                yield Point(
                    problem,
                    problem.types_text,
                    row["tactic"],
                    row["seconds"],
                    getattr(problem, "flops", None),
                    problem.bytes,
                    device.memory_bandwidth,
                    family.peak(problem.kind, device),
                )
