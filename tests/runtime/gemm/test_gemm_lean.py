"""Selection among the lean kernels of `gemm`: their tactics, their model, and what they take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from committed_lean_kernels import BY_NAME, KERNELS, SMALLER, TURNS, WIDE, first, waves

from tilewright.architectures.device import H100, H200, DeviceProperties
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import cost_lean
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import (
    ACTIVATIONS,
    FP8,
    INTEGER_ACTIVATIONS,
    OUTPUTS,
    OWN_OPERANDS,
    Problem,
    addends,
)
from tilewright.libraries.registry import Registry
from tilewright.selection import fitting


@pytest.mark.parametrize(
    ("tactic", "says"),
    [
        (Tactic(WIDE), None),
        (Tactic(WIDE, cluster="2x2", splits=2, raster="along_n", swizzle=8), None),
        (Tactic(WIDE, splits=8), None),
        (Tactic(WIDE, splits=7), None),
        (Tactic(WIDE, cluster="2x1", splits=3), None),
        (Tactic(WIDE, splits=9), "9 thread blocks"),
        (Tactic(WIDE, cluster="4x1", splits=4), "16 thread blocks"),
        (Tactic(WIDE, cluster="2x1", decomposition="split_k", splits=33), None),
        (Tactic(WIDE, decomposition="split_k", splits=64), None),
        (Tactic(WIDE, decomposition="stream_k", splits=2), "no decomposition"),
        (Tactic(TURNS, cluster="2x1", decomposition="split_k", splits=2), None),
        (Tactic(WIDE, cluster="2x1", fallback="1x1"), "does not support fallback"),
        (Tactic(WIDE, cluster="3x1"), "power of two"),
        (Tactic(TURNS, cluster="1x4"), None),
        (Tactic(TURNS, splits=2), "do not fit into its stages"),
    ],
    ids=str,
)
def test_a_tactic_is_legal_or_says_why_not(tactic: Tactic, says: str | None) -> None:
    reason = FAMILY.misfit_arguments(tactic, BY_NAME[tactic.kernel])
    assert (reason is None) if says is None else (says in (reason or ""))


def test_each_part_of_a_split_k_has_a_tile() -> None:
    tactic, record = Tactic(WIDE, splits=8), BY_NAME[WIDE]
    assert FAMILY.misfit_tactic(tactic, record, Problem(256, 256, 449)) is None  # 8 tiles of 64
    assert "fewer than 8 tiles of 64" in str(FAMILY.misfit_tactic(tactic, record, Problem(256, 256, 448)))


def problems() -> Iterator[Problem]:
    few_tiles = (195, 704, 13056)
    for m, n, k in (
        (3, 512, 512),
        (100, 5120, 2880),
        (384, 6144, 4096),
        (4100, 4096, 64),
        (1, 8, 16),
        few_tiles,
    ):
        yield Problem(m, n, k)
        yield Problem(m, n, k, a="e4m3", b="e4m3", fast_accum=True)


def test_what_is_weighed_is_legal_and_estimated() -> None:
    for problem in problems():
        fitting = FAMILY.fitting(KERNELS, problem)
        assert fitting
        for record in fitting:
            weigh = cost_lean.estimator(record, problem, H200)
            tactics = list(FAMILY.candidates(record, problem, H200))
            assert Tactic(record.name) in tactics
            for tactic in tactics:
                assert FAMILY.misfit_tactic(tactic, record, problem) is None
                assert 1e-6 < weigh(tactic).seconds < 1e-2


def options(a: str, b: str, layout: str = "tn") -> Iterator[Problem]:
    """Every option set that the op documents, for operands of these types: "" stands for no C, or no bias."""
    fast = (False, True) if a in FP8 else (False,)
    for d in OUTPUTS[a, b]:
        types = ("", *addends(a, d))
        for c, bias, activation, accumulates, (n, alignment) in itertools.product(
            types, types, INTEGER_ACTIVATIONS if d == "s32" else ACTIVATIONS, fast, ((1024, 16), (1023, 2))
        ):
            yield Problem(
                200, n, 512, 1, a, b, d, layout, c=bool(c), c_type=c, bias=bool(bias), bias_type=bias,
                activation=activation, fast_accum=accumulates, alignment=alignment,
            )  # fmt: skip


LEAN_PAIRS = [pair for pair in OUTPUTS if pair[0] in OWN_OPERANDS]


@pytest.mark.parametrize(("a", "b"), LEAN_PAIRS)
def test_every_option_set_has_a_lean_kernel(a: str, b: str) -> None:
    """For results that TMA stores and others; also with exact sums where the call would allow fast ones."""
    lacking = [str(problem) for problem in options(a, b) if not FAMILY.fitting(KERNELS, problem)]
    assert lacking == []


@pytest.mark.parametrize("layout", ["tt", "nn", "nt"])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_every_option_set_of_16_bits_has_a_lean_kernel_in_every_layout(dtype: str, layout: str) -> None:
    lacking = [
        str(problem) for problem in options(dtype, dtype, layout) if not FAMILY.fitting(KERNELS, problem)
    ]
    assert lacking == []


@pytest.mark.parametrize(("a", "b"), [pair for pair in OUTPUTS if pair not in LEAN_PAIRS])
def test_every_option_set_of_other_types_has_a_kernel(a: str, b: str) -> None:
    """The kernels are CUTLASS's; operands are padded where they have to be."""
    kernels = list(Registry().kernels("gemm"))
    expected = (problem for problem in options(a, b) if problem.alignment == 16)
    lacking = [str(problem) for problem in expected if not FAMILY.fitting(kernels, problem)]
    assert lacking == []


@pytest.mark.parametrize(
    ("n", "alignment", "fits"),
    [(1024, 16, True), (1024, 8, False), (1023, 16, False), (1028, 16, False), (1032, 16, True)],
)
def test_what_a_kernel_that_stores_by_tma_alone_takes(n: int, alignment: int, fits: bool) -> None:
    """Whole 16 bytes; other kernels take any result. Operands may have any extents."""
    problem = Problem(200, n, 513, alignment=alignment)
    reason = FAMILY.misfit(BY_NAME[TURNS], problem)
    assert (reason is None) if fits else ("stores D by TMA only" in (reason or ""))
    assert FAMILY.misfit(BY_NAME[WIDE], problem) is None


@pytest.mark.parametrize(("m", "n", "k"), [(384, 6144, 4096), (412, 12288, 5568)])
def test_tiles_are_chosen_that_fill_their_waves(m: int, n: int, k: int) -> None:
    """Where tiles of powers of two leave a wave half empty: the reason for a fine set."""
    tactic, record = first(Problem(m, n, k))
    assert mainloop_of(record) == "lean"
    taken = waves(tactic, record, Problem(m, n, k))
    assert taken % 1 == 0 or taken % 1 > 0.8, (str(tactic), taken)


def test_a_slower_memory_makes_a_longer_time() -> None:
    """What is bound by HBM on an H200 takes longer on an H100; what is bound by its tensor cores does not."""
    few, many = Problem(16, 16384, 16384), Problem(4000, 8192, 8192)
    for problem, slower in ((few, True), (many, False)):
        tactic, record = first(problem)
        h200, h100 = (cost_lean.estimator(record, problem, device)(tactic) for device in (H200, H100))
        assert h200.bound == ("hbm" if slower else h200.bound)
        assert (h100.seconds > 1.2 * h200.seconds) == slower


def test_no_bias_is_no_reason_to_take_another_kernel() -> None:
    assert not any(FAMILY.does_extra_work(record, Problem(100, 1024, 512)) for record in KERNELS)


def test_parts_of_a_long_k_that_meet_in_memory_are_weighed() -> None:
    """As many as fill the SMs, where a cluster would hold too few; a second kernel's time is added."""
    problem = Problem(195, 704, 13056)
    tactic, record = first(problem)
    assert tactic.decomposition == "split_k"
    m, n = fitting.cluster_of(tactic)
    taken = waves(tactic, record, problem)
    assert 0.6 < taken <= 1, (str(tactic), taken)
    kernel = cost_lean.Kernel(record, problem, H200)
    terms, whole = kernel.terms(tactic), kernel.terms(replace(tactic, decomposition="heuristic", splits=1))
    assert terms.blocks == tactic.splits * whole.blocks
    assert terms.boxes < 1.1 * whole.boxes / tactic.splits
    assert terms.added > whole.added + kernel.combine
    clocks = {True: cost_lean.SPLIT_FORM_CLOCKS, False: cost_lean.COMBINE_CLOCKS}
    for config in (record.config | {"split_form": form} for form in clocks):
        kernel_of_form = cost_lean.Kernel(record._replace(config=config), problem, H200)
        assert kernel_of_form.combine == clocks[config["split_form"]]
    assert m * n * terms.blocks <= 132
    for unsplit in (Problem(195, 704, 448), Problem(195, 704, 13056, batch=2), Problem(2900, 2900, 13056)):
        weighed = [tactic for kernel in KERNELS for tactic in FAMILY.candidates(kernel, unsplit, H200)]
        assert not any(tactic.decomposition == "split_k" for tactic in weighed)


@pytest.mark.parametrize(
    ("problem", "in_memory"),
    [
        (Problem(375, 512, 29888), True),  # on an H200 26.2 us, 31.7 in clusters
        (Problem(195, 704, 13056), True),  # 13.6, 15.9
        (Problem(253, 832, 15296), True),  # 18.1, 20.6
        (Problem(242, 1280, 3520), False),  # 11.8, 10.0 in parts
        (Problem(711, 896, 15232), False),  # 38.9, 36.1
    ],
    ids=str,
)
def test_parts_meet_where_they_were_quicker(problem: Problem, in_memory: bool) -> None:
    tactic, _ = first(problem)
    assert (tactic.decomposition == "split_k") == in_memory
    assert tactic.splits > 1 or not in_memory, str(tactic)


def test_parts_in_memory_share_what_they_load() -> None:
    """All SMs ask L2 for rows then: 64x104 in 6 parts takes 13.6 us in pairs."""

    def weighed(problem: Problem) -> set[str]:
        actual = FAMILY.candidates(BY_NAME[WIDE], problem, H200)
        return {tactic.cluster for tactic in actual if tactic.decomposition == "split_k"}

    assert weighed(Problem(375, 512, 29888)) == {"2x1", "1x2", "2x2", "1x4"}
    assert weighed(Problem(100, 100, 29888)) == {""}


@pytest.mark.parametrize("device", SMALLER, ids=lambda device: f"{device.sm_count} SMs")
@pytest.mark.parametrize(
    "problem", [Problem(100, 100, 29888), Problem(375, 512, 29888), Problem(16, 4096, 14336)], ids=str
)
def test_a_split_k_has_one_wave_on_every_gpu(device: DeviceProperties, problem: Problem) -> None:
    most = {}
    for gpu in (device, H200):
        tactics = [tactic for kernel in KERNELS for tactic in FAMILY.candidates(kernel, problem, gpu)]
        split = [tactic for tactic in tactics if tactic.splits > 1]
        most[gpu] = max((tactic.splits for tactic in split), default=1)
        for tactic in split:
            down, across = fitting.own_tiles(BY_NAME[tactic.kernel], problem.m, problem.n)
            assert down * across * tactic.splits <= gpu.sm_count, str(tactic)
    assert most[device] <= most[H200]
    assert FAMILY.rank(KERNELS, problem, device)


def test_rows_of_an_mn_major_operand_cost_more() -> None:
    """Than K-major ones; multicast saves less of them, and misaligned to lines they cost more again."""

    def loads(layout: str, cluster: str, m: int = 4096) -> float:
        """Clocks of a box that TMA takes: of 128 rows of A and of B."""
        record = BY_NAME[WIDE.replace("_tn_", f"_{layout}_")]
        kernel = cost_lean.Kernel(record, Problem(m, 4096, 4096, layout=layout), H200)
        kernel.terms(Tactic(record.name, cluster=cluster))
        return kernel._clusters[cluster].loads

    assert loads("tn", "") < loads("tt", "") == loads("nn", "") < loads("nt", "")
    of_a, of_b = (loads("tt", "") - loads("tt", cluster) for cluster in ("1x2", "2x1"))
    assert of_b == pytest.approx(of_a * cost_lean.MN_ISSUED_CLOCKS / cost_lean.ISSUED_CLOCKS, rel=0.1)
    assert loads("nn", "", m=4160) < loads("nn", "", m=4104)


def test_an_mn_major_operand_is_loaded_whole() -> None:
    """In boxes of 64 rows, of which those beyond the matrix cost most."""
    assert cost_lean._loads(192, 72, 1, False).arriving == 72
    assert cost_lean._loads(192, 72, 1, True) == (192, 128, 64)
    assert cost_lean._loads(192, 72, 4, True) == (192, 32, 16)
    assert cost_lean._loads(192, 192, 2, True) == (192, 96, 0)
    assert cost_lean._loads(160, 320, 1, True) == (192, 192, 0)  # with the next tile's


def test_exact_sums_cost_most_where_warpgroups_take_turns() -> None:
    """As measured on an H200: 268 us of the one, 159 of the other."""
    problem, name = Problem(4096, 6144, 4096, a="e4m3", b="e4m3"), "gemm_sm90_e4m3_e4m3_f32_bf16_tn_{}"
    turns = Tactic(name.format("64x160x128_lean_pingpong"), cluster="2x1")
    together = Tactic(name.format("128x128x128_lean_coop"), cluster="1x2")
    slow, quick = (
        cost_lean.estimator(BY_NAME[tactic.kernel], problem, H200)(tactic) for tactic in (turns, together)
    )
    assert slow.seconds > 1.5 * quick.seconds
    assert quick.seconds == pytest.approx(159e-6, rel=0.1)
    _, record = first(problem)
    assert (record.config["schedule"], record.config["tile"][0] > 64) == ("cooperative", True)
