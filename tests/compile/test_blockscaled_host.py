"""The host side of block-scaled kernels, on any machine: what they take, and their workspaces.

The kernels are those that are compiled for tests; their modules' libraries are loaded, and no GPU is touched.
"""

from __future__ import annotations

import itertools

import pytest
from blockscaled_host import DEVICES, GOOD, ask, takes, workspace
from compiled_kernels import HOPPER, STREAM_K, TWO_SM, ULTRA, Compiled

from tilewright.architectures.device import RTX_PRO_6000
from tilewright.declarations.arguments import struct
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import Problem

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compile

TILE_BYTES = 128 * 128 * 4  # of partial sums
SIDES = (1, 2, 3, 4, 6, 8)


@pytest.fixture(params=DEVICES)
def kernel(request: pytest.FixtureRequest, compiled: dict[str, Compiled]) -> Compiled:
    return compiled[request.param]


def test_good_problems(kernel: Compiled) -> None:
    for shape in (
        GOOD, (1, 128, 512), (31, 256, 256), (128, 4096, 7168), (4097, 528, 96), (1, 16, 32), (*GOOD, 3),
        (8192, 28672, 8192),
    ):  # fmt: skip
        assert takes(kernel, shape), shape


def test_empty_and_impossible_problems(kernel: Compiled) -> None:
    for shape in ((0, 256, 256), (128, 0, 256), (128, 256, 0), (128, 256, 256, 0)):
        assert not takes(kernel, shape), shape


def test_k_that_tma_cannot_move(kernel: Compiled) -> None:
    for k in (16, 40, 136, 1000, 1008, 1023):
        assert not takes(kernel, (128, 256, k)), k


def test_n_that_a_store_cannot_write(compiled: dict[str, Compiled]) -> None:
    for name in (TWO_SM, STREAM_K):
        assert takes(compiled[name], (128, 264, 512))
        for n in (129, 130, 132, 260):
            assert not takes(compiled[name], (128, n, 512)), n
    assert takes(compiled[HOPPER], (128, 129, 512))  # single elements, where it must


def test_what_the_table_accepts_the_kernel_takes(kernel: Compiled) -> None:
    """Extents: where the rules say yes, can_implement does not say no."""
    record = kernel.record
    extents = itertools.product(
        (1, 7, 128, 4097), (8, 16, 24, 129, 260, 272, 1000), (32, 48, 72, 96, 160, 1024), (1, 3)
    )
    agreed = 0
    for shape in extents:
        legal = FAMILY.misfit(record, Problem(*shape)) is None
        agreed += legal
        if legal or record.name != ULTRA:  # whose D the table alone wants at multiples of 32 bytes
            assert takes(kernel, shape) == legal, shape
    assert agreed


def test_the_alignment_of_an_ultra_epilogue_is_a_rule(ultra: Compiled) -> None:
    reason = FAMILY.misfit(ultra.record, Problem(128, 264, 1024))
    assert reason is not None
    assert "d has 264 elements" in reason
    assert "not a multiple of 16" in reason
    assert FAMILY.misfit(ultra.record, Problem(128, 272, 1024)) is None


@pytest.mark.parametrize("name", [TWO_SM, ULTRA])
def test_clusters(compiled: dict[str, Compiled], name: str) -> None:
    """The rules and the kernel agree on every shape and fallback: sides of 1, 2 and 4, pairs whole,
    fallbacks that divide."""
    kernel = compiled[name]
    unit = 2 if name == TWO_SM else 1
    assert kernel.record.facts["cluster_multiple"] == [unit, 1]
    legal = []
    for m, n, fallback_m, fallback_n in itertools.product(SIDES, SIDES, SIDES, SIDES):
        if m * n > 16 or fallback_m * fallback_n > 16:
            continue
        tactic = Tactic(name, cluster=f"{m}x{n}", fallback=f"{fallback_m}x{fallback_n}")
        fits = FAMILY.misfit_arguments(tactic, kernel.record) is None
        if takes(kernel, GOOD, cluster=tactic.cluster, fallback=tactic.fallback):
            legal.append((m, n, fallback_m, fallback_n))
            assert max(m, n) <= 4
            assert m % unit == fallback_m % unit == 0
            assert m % fallback_m == n % fallback_n == 0
            assert fits, tactic
        else:
            assert not fits, tactic
    assert (4, 4, unit, 1) in legal
    assert (4, 2, 4, 2) in legal
    assert takes(kernel, GOOD)  # the smallest that the kernel has


def test_clusters_that_are_wrong(two_sm: Compiled, ultra: Compiled) -> None:
    for cluster, fallback in (
        ("1x1", "1x1"),  # cuts a pair of SMs
        ("3x1", "3x1"),  # likewise
        ("4x1", "1x1"),  # its fallback does
        ("8x1", "2x1"),  # scale factors are multicast to four
        ("2x8", "2x1"),
        ("2x2", "2x4"),  # a fallback that does not divide it
        ("4x2", "4x4"),
        ("2x2", "4x1"),
    ):
        assert not takes(two_sm, GOOD, cluster=cluster, fallback=fallback), (cluster, fallback)
    for cluster, fallback in (("1x4", "1x1"), ("2x2", "1x2"), ("4x4", "1x1")):
        assert takes(ultra, GOOD, cluster=cluster, fallback=fallback), (cluster, fallback)
    assert not takes(ultra, GOOD, cluster="1x8", fallback="1x1")


def test_settings_that_are_no_numbers_to_count_with(kernel: Compiled) -> None:
    """Swizzle, splits and the number of SMs: 0 and less are refused, not divided by."""
    library, name, arguments = ask(kernel, GOOD)
    assert library.can_implement(name, arguments)
    for what in ("splits",) if name == HOPPER else ("swizzle", "splits", "sm_count"):
        for value in (0, -1):
            wrong = struct(INTERFACE).from_buffer_copy(arguments)
            setattr(wrong.tactic, what, value)
            assert not library.can_implement(name, bytes(wrong)), what


def test_splits_over_a_cluster_of_hopper(compiled: dict[str, Compiled]) -> None:
    hopper = compiled[HOPPER]
    for splits in range(1, 17):
        assert takes(hopper, GOOD, splits=splits) == (splits in (1, 2, 4, 8)), splits
    assert takes(hopper, (16, 128, 256, 8191), splits=8)
    assert not takes(hopper, (16, 128, 256, 8192), splits=8)  # thread blocks along z
    assert takes(hopper, (32 * 65535, 128, 256))
    assert not takes(hopper, (32 * 65535 + 1, 128, 256))  # along y


def test_what_does_not_split_needs_no_workspace(compiled: dict[str, Compiled]) -> None:
    for shape in (GOOD, (1, 128, 512), (32, 5120, 25600), (*GOOD, 3)):
        for name in (TWO_SM, ULTRA, HOPPER):
            assert workspace(compiled[name], shape) == 0
        assert workspace(compiled[HOPPER], shape, splits=8) == 0
        assert workspace(compiled[STREAM_K], shape, decomposition="data_parallel") == 0


@pytest.mark.parametrize(
    "shape", [(32, 5120, 25600), (128, 128, 8192), (4096, 4096, 4096), (100, 520, 4128, 2)]
)
def test_workspace_of_stream_k(stream_k: Compiled, shape: tuple[int, ...]) -> None:
    """Partial sums and a few barriers for each tile of D that the tactic cuts, not for what any might."""
    m, n, _, batch = (*shape, 1)[:4]
    tiles = -(-m // 128) * -(-n // 128) * batch
    most = tiles * (TILE_BYTES + 8) + 128
    for splits in (2, 4):
        assert tiles * TILE_BYTES < workspace(stream_k, shape, decomposition="split_k", splits=splits) <= most
    cut = min(tiles, 2 * RTX_PRO_6000.sm_count)
    streamed = workspace(stream_k, shape, decomposition="stream_k")
    assert TILE_BYTES < streamed <= cut * TILE_BYTES + tiles * 8 + 128
