"""Lists of groups that no caller should pass. The device reads them when a kernel runs, so no check of a call
refuses them: the kernel must end, and must write nothing outside of D."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tilewright.declarations import catalog
from tilewright.errors import NotBuiltError
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Fp8Experts
from tilewright.families.mixed_grouped_gemm.problem import Problem as Experts

M, N, K, GROUPS = 70, 328, 672, 8
MARK = 77.0  # around D
FIRST, LAST = -(2**31), 2**31 - 1
ARGUMENTS = {
    "ends": "group_ends",
    "row_index": "group_of_row",
    "rows_valid": "rows_valid",
    "k_sizes": "group_k",
}
# Numbers outside of what there is count as the nearest row, or as no group.
OUTSIDE = {
    "ends": [FIRST, -1, 3, 3, M + 1, LAST, LAST, LAST],
    "row_index": [FIRST, 0, LAST, GROUPS, 1, -1, GROUPS - 1] * (M // 7),
    "rows_valid": [LAST, FIRST, M + 1, -1, 0, 1, M, M - 1],
    "k_sizes": [128, LAST, -1, FIRST, 10**6, 0, 128, LAST],
}
# Groups that begin before the group before them ends.
CROSSED = {"ends": [M, 3, LAST, 5, FIRST, 40, -1, M]}
PROBLEMS = [
    ("mixed_grouped_gemm", Experts(M, N, K, GROUPS)),
    ("mixed_grouped_gemm", Experts(M, N, K, GROUPS, grouping="row_index")),
    ("mixed_grouped_gemm", Experts(M, N, K, GROUPS, weight_format="nvfp4", grouping="rows_valid")),
    ("mixed_fp8_grouped_gemm", Fp8Experts(M, N, K, GROUPS, a_scale=True)),
    ("mixed_fp8_grouped_gemm", Fp8Experts(M, N, K, GROUPS, grouping="row_index", a_scale=True)),
    (
        "mixed_fp8_grouped_gemm",
        Fp8Experts(M, N, K, GROUPS, weight_format="mxfp4", grouping="rows_valid", a_scale=True),
    ),
    ("grouped_gemm", Grouped(M, N, K, GROUPS, grouping="ends")),
    ("grouped_gemm", Grouped(M, N, K, GROUPS, grouping="rows_valid")),
    ("grouped_gemm", Grouped(M, N, 1024, GROUPS, grouping="k_sizes", scales="1x128", d="f32")),
]


class Call:
    """A call whose list of groups was replaced, and whose D has marks around it."""

    def __init__(self, family: str, problem: Any, numbers: list[int]) -> None:
        made = catalog.family_module(family, "measuring").make(
            problem, torch.Generator("cuda").manual_seed(0)
        )
        shape = made.out.shape
        self.wide = torch.full((*shape[:-2], shape[-2] + 2, shape[-1] + 32), MARK, device="cuda").to(
            made.out.dtype
        )
        self.out = self.wide[..., 1:-1, 16:-16]
        listed = torch.tensor(numbers, dtype=torch.int32, device="cuda")
        self.operands = made.changed(**{ARGUMENTS[problem.grouping]: listed, "out": self.out})

    def run(self) -> None:
        try:
            self.operands.call()
        except NotBuiltError as error:
            pytest.skip(error.message)
        torch.cuda.synchronize()

    def check_marks(self) -> None:
        written = self.out.clone()
        self.out.fill_(MARK)
        assert bool((self.wide == MARK).all()), "wrote outside of D"
        self.out.copy_(written)


@pytest.mark.parametrize(("family", "problem"), PROBLEMS, ids=[str(problem) for _, problem in PROBLEMS])
def test_numbers_outside_of_what_there_is(family: str, problem: Any) -> None:
    """Rows that count are right."""
    call = Call(family, problem, OUTSIDE[problem.grouping])
    call.run()
    call.check_marks()
    if problem.grouping != "k_sizes":
        call.operands.check()


@pytest.mark.parametrize(
    ("family", "problem"),
    [(family, problem) for family, problem in PROBLEMS if problem.grouping in CROSSED],
    ids=str,
)
def test_groups_that_cross(family: str, problem: Any) -> None:
    call = Call(family, problem, CROSSED[problem.grouping])
    call.run()
    call.check_marks()
