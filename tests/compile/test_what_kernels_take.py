"""Which problems real kernels of sm_90a take, and their workspaces, as libraries answer without a GPU.

Rules of the runtime refuse most of these problems earlier. A caller of the C ABI has `can_implement` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from compiled_kernels import GENERATED, HOPPER, LEAN, built

from tilewright.declarations.arguments import packed, struct
from tilewright.declarations.declaration import Interface
from tilewright.declarations.table import Table
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.interface import INTERFACE as BLOCKSCALED
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledProblem
from tilewright.families.gemm.interface import INTERFACE as GEMM
from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.families.grouped_gemm.interface import INTERFACE as GROUPED
from tilewright.families.grouped_gemm.problem import Problem as GroupedProblem
from tilewright.libraries.library import Library, load

SCALED = "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_64x16x256_swap"
PLAIN = "grouped_gemm_sm90_bf16_bf16_bf16_64x64x128"
PARTS = "grouped_gemm_sm90_e4m3_e4m3_f32_1x128_1x128_128x128x128"
MODULES = {
    "sm90_gemm_lean": {LEAN},
    "sm90_blockscaled_gemm": {HOPPER},
    "sm90_grouped_gemm": {SCALED, PLAIN, PARTS},
}
SM_COUNT = 132
TENSOR_MAP_BYTES = 128

pytestmark = pytest.mark.compile

Ask = Callable[[str], Library]


@pytest.fixture(scope="module")
def library() -> Ask:
    """The library of a module, with its kernels of MODULES."""
    libraries: dict[str, Library] = {}

    def of(module: str) -> Library:
        if module not in libraries:
            report = built(Table.read(GENERATED / module / "table.json"), MODULES[module])
            libraries[module] = load(report.libraries[0].path)
        return libraries[module]

    return of


def takes(library: Library, interface: Interface, problem: Any, tactic: Tactic, **members: Any) -> bool:
    """Whether the kernel takes the problem, with some members of its arguments changed."""
    arguments = struct(interface).from_buffer_copy(packed(interface, problem, tactic, SM_COUNT))
    for name, value in members.items():
        setattr(arguments, name, value)
    return library.can_implement(tactic.kernel, bytes(arguments))


def test_k_is_split_into_no_more_parts_than_it_has_tiles(library: Ask) -> None:
    lean, problem = library("sm90_gemm_lean"), GemmProblem(64, 160, 128)  # two tiles of 64
    for decomposition in ("heuristic", "split_k"):
        tactics = [Tactic(LEAN, splits=splits, decomposition=decomposition) for splits in (1, 2, 3)]
        assert [takes(lean, GEMM, problem, tactic) for tactic in tactics] == [True, True, False]


@pytest.mark.parametrize(
    ("cluster", "legal"),
    [
        ("1x2", True),
        ("2x2", True),
        ("1x8", True),
        ("1x3", False),
        ("3x1", False),
        ("1x6", False),
        ("4x4", False),
    ],
)
def test_sides_of_clusters_are_powers_of_two(library: Ask, cluster: str, legal: bool) -> None:
    gemm, grouped = GemmProblem(1024, 1024, 1024), GroupedProblem(1024, 1024, 1024, groups=2)
    assert takes(library("sm90_gemm_lean"), GEMM, gemm, Tactic(LEAN, cluster)) == legal
    assert takes(library("sm90_grouped_gemm"), GROUPED, grouped, Tactic(SCALED, cluster)) == legal


@pytest.mark.parametrize(
    ("kernel", "dtype", "scales"), [(SCALED, "e4m3", "128x128"), (PLAIN, "bf16", "none")]
)
def test_groups_begin_where_tma_reads_their_scale_factors(
    library: Ask, kernel: str, dtype: str, scales: str
) -> None:
    """TMA reads from multiples of 16 bytes: four factors. Without factors groups begin anywhere."""
    for alignment in (1, 2, 4, 6, 8):
        problem = GroupedProblem(
            1024, 1024, 1024, 4, dtype, dtype, scales=scales, grouping="ends", row_alignment=alignment
        )
        taken = takes(library("sm90_grouped_gemm"), GROUPED, problem, Tactic(kernel))
        assert taken == (kernel == PLAIN or alignment % 4 == 0), alignment


def test_the_batch_stride_of_a_single_matrix_means_nothing(library: Ask) -> None:
    odd = {f"batch_stride_{name}": 3 for name in ("a", "b", "d")}
    for batch, legal in ((1, True), (2, False)):
        problem = GemmProblem(64, 160, 128, batch)
        assert takes(library("sm90_gemm_lean"), GEMM, problem, Tactic(LEAN))
        assert takes(library("sm90_gemm_lean"), GEMM, problem, Tactic(LEAN), **odd) == legal


def test_columns_in_heads_are_whole_heads(library: Ask) -> None:
    """A head has 64 columns, a gap of 8, and 32 columns."""
    heads = {"head_left": 64, "head_gap": 8, "head_right": 32}
    for n, legal in ((960, True), (1024, False)):
        problem = GroupedProblem(256, n, 1024, 1, "bf16", "bf16", scales="none")
        assert takes(library("sm90_grouped_gemm"), GROUPED, problem, Tactic(PLAIN))
        assert takes(library("sm90_grouped_gemm"), GROUPED, problem, Tactic(PLAIN), **heads) == legal


def test_groups_along_k_divide_whole_tiles_of_k(library: Ask) -> None:
    problem = GroupedProblem(256, 256, 1024, 7, d="f32", scales="1x128", grouping="k_sizes")
    taken = [
        takes(library("sm90_grouped_gemm"), GROUPED, problem, Tactic(PARTS), k=k) for k in (896, 1008, 1024)
    ]
    assert taken == [True, False, True]


def test_a_workspace_holds_the_tensor_maps_of_every_group(library: Ask) -> None:
    """Each group has a map of A and one of B, where groups are parts of k. There is room at least for what a
    form's thread blocks make, maps of eight groups each, whatever the grid is."""
    of_form = 3 * SM_COUNT * 8
    few = GroupedProblem(256, 256, 1024, 7, d="f32", scales="1x128", grouping="k_sizes")
    many = replace(few, groups=5000, k=5000 * 128)
    rows = replace(few, grouping="ends")
    assert few.groups < of_form < many.groups
    for problem, maps in ((few, of_form), (many, many.groups), (rows, 0)):
        size = maps * 2 * TENSOR_MAP_BYTES
        arguments = packed(GROUPED, problem, Tactic(PARTS), SM_COUNT)
        assert library("sm90_grouped_gemm").workspace_bytes(PARTS, arguments) == size


@pytest.mark.parametrize("beta", [-1.0, 0.5, 1.0])
def test_a_kernel_without_c_takes_no_beta(library: Ask, beta: float) -> None:
    hopper, problem = library("sm90_blockscaled_gemm"), BlockscaledProblem(256, 512, 1024)
    assert takes(hopper, BLOCKSCALED, problem, Tactic(HOPPER), beta=0.0)
    assert not takes(hopper, BLOCKSCALED, problem, Tactic(HOPPER), beta=beta)
