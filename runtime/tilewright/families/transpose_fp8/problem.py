"""The problem of a call of `transpose_fp8`, apart from where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.declarations.problem import ProblemBase

TYPES = ("e4m3", "e5m2")


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """out[columns, rows] = x[rows, columns] transposed; with groups, the rows of each group are transposed
    separately."""

    op_text = "transpose_fp8"
    kind_fields = ("type",)
    shown_beyond_1 = (("batch", " batch {}"),)

    rows: int
    columns: int
    batch: int = 1
    type: str = "e4m3"
    groups: int = 0  # groups of rows

    @property
    def bytes(self) -> int:
        """Bytes that memory must move at least: the matrix twice."""
        return 2 * self.batch * self.rows * self.columns

    @property
    def types_text(self) -> str:
        return self.type + (f", {self.groups} groups of rows" if self.groups else "")
