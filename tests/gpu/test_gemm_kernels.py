"""Every generated `gemm` kernel that this GPU runs, against float64 references."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gemm_reference as reference
import pytest
import torch
import yaml
from generated_kernels import fixture, names, registry
from late_writes import check_waits

import tilewright
from tilewright.context import current
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import MOST_ROWS, Stream, mainloop_of
from tilewright.families.gemm.problem import (
    ACTIVATIONS,
    FP8,
    GATED,
    GIVEN,
    PAIRED_COLUMNS,
    Problem,
    addends,
)
from tilewright.libraries import workspace

SHAPES = yaml.safe_load(
    (Path(__file__).parents[2] / "benchmarks/shapes/gemm.yaml").read_text(encoding="utf-8")
)
ODD = [(shape["m"], shape["n"], shape["k"]) for shape in SHAPES["odd"]]
LARGE = [(256, 6144, 4096), (2048, 4096, 7168), (4096, 14336, 1024)]


BOXED = ("lean", "mma")  # mainloops of ours for all sizes
COMPILED_IN = ("cutlass", "cute_dsl", "tcgen05")  # mainloops whose cluster and types are compiled in

kernel = fixture("gemm")


def test_every_kernel_is_built() -> None:
    missing = [name for name in names("gemm") if not registry().is_built(registry().record(name))]
    assert not missing, (
        f"{len(missing)} kernels are not built, {missing[0]} is the first: run `tilewright build`"
    )


def activation_of(record: KernelRecord, shape: tuple[int, int, int]) -> str:
    """A kernel that is compiled for any activation is given another one with another shape."""
    told = record.config["activation"]
    _, *others = ACTIVATIONS
    return others[sum(shape) % len(others)] if told == GIVEN else str(told)


def problem_of(record: KernelRecord, m: int, n: int, k: int, batch: int = 1) -> Problem:
    config = record.config
    return Problem(
        m, n, k, batch, config["a"], config["b"], config["d"], config["layout"],
        activation=activation_of(record, (m, n, k)), fast_accum=config["fast_accum"],
    )  # fmt: skip


def addend(record: KernelRecord) -> str:
    """The type of C and of the bias, if a call does not choose another one."""
    return addends(record.config["a"], record.config["d"])[0]


def gated(record: KernelRecord) -> bool:
    """Whether D is made of two halves of the product."""
    return record.config["activation"] in GATED


def fitted(record: KernelRecord, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The shape, or for a kernel of few rows, or of pairs of columns, one that it takes."""
    m, n, k = shape
    if gated(record):
        return m, -(-n // PAIRED_COLUMNS) * PAIRED_COLUMNS, k
    return (min(m, MOST_ROWS), n, -(-k // 16) * 16) if mainloop_of(record) == "stream" else shape


def shapes(record: KernelRecord, among: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The shapes that the kernel takes as they are, or with n rounded up to whole pairs."""
    made = [fitted(record, shape) if gated(record) else shape for shape in among]
    return (shape for shape in made if FAMILY.misfit(record, problem_of(record, *shape)) is None)


def plain_epilogue(record: KernelRecord, k: int) -> tuple[dict[str, Any], Any]:
    """The product as it is; for products of two halves in F16 a factor, so that it holds them."""
    if not gated(record) or record.config["d"] != "f16":
        return {}, lambda product: product
    alpha = 2.0 ** round(math.log2(1 / math.sqrt(k)))
    return {"alpha": alpha}, lambda product: alpha * product


def full_epilogue(record: KernelRecord, shape: tuple[int, ...], k: int) -> tuple[dict[str, Any], Any]:
    """Arguments that use all that the kernel can do, and the function of A B, of this shape, that they ask
    for.

    No factor is a power of two: such a one is a shift, which is exact wherever it is applied.
    """
    config = record.config
    integer = config["d"] == "s32"
    # So that the activation sees values about 1.
    alpha = -3.0 if integer else -0.8125 * 2.0 ** round(math.log2(0.4 / math.sqrt(k)))
    call: dict[str, Any] = {"alpha": alpha}
    addends = []
    if not integer:
        scale_a, scale_b = 0.625, 3.5
        call |= {
            "scale_a": torch.tensor([scale_a], device="cuda"),
            "scale_b": torch.tensor(scale_b, device="cuda"),
        }
        alpha *= scale_a * scale_b
    if config["d"] in FP8:
        call |= {"scale_result": torch.tensor(1.375, device="cuda"), "amax": torch.zeros(1, device="cuda")}
    if config["c"] == "same":
        c = reference.random(shape, addend(record), seed=3)
        call |= {"c": reference.embed(c), "beta": -2.0 if integer else -0.625}
        addends.append(call["beta"] * c.double())
    if config["bias"]:
        call["bias"] = reference.embed(reference.random(shape[-1:], addend(record), seed=4))
        addends.append(call["bias"].double())
    return call, lambda product: sum(addends, alpha * product)


@dataclass
class Case:
    """One call of a kernel, into a poisoned D, and what it has to make of it."""

    record: KernelRecord
    what: str
    k: int
    out: reference.Output
    wanted: torch.Tensor
    arguments: dict[str, Any]

    def run(self) -> None:
        tilewright.gemm(out=self.out.view, **self.arguments)

    def check(self, when: str = "") -> None:
        expected = self.wanted
        if (scale := self.arguments.get("scale_result")) is not None:
            expected = expected * scale.double()
        reference.compare(self.out.view, expected, self.record.config, self.k, f"{self.what} {when}")
        self.out.check_borders()
        if (amax := self.arguments.get("amax")) is not None:
            largest = float(self.wanted.abs().max())
            assert abs(float(amax) / largest - 1) < 1e-2, f"{self.what}: amax {float(amax)}, not {largest}"


def case_of(
    record: KernelRecord,
    shape: tuple[int, int, int],
    *,
    batch: int = 0,
    full: bool = False,
    tactic: Tactic | None = None,
    aligned: bool = True,
) -> Case:
    """Operands within poison; `full` uses all epilogues; `aligned`: D's rows are."""
    config = record.config
    _, _, k = shape = fitted(record, shape)
    a, b, product = reference.operands(config["a"], config["b"], shape, batch)
    call, linear = full_epilogue(record, product.shape, k) if full else plain_epilogue(record, k)
    tactic, activation = tactic or Tactic(record.name), activation_of(record, shape)
    arguments = {
        "a": reference.embed(a, row_major=config["layout"][0] == "t"),
        "b": reference.embed(b, row_major=config["layout"][1] == "t"),
        "activation": activation,
        "fast_accum": config["fast_accum"],
        "tactic": tactic,
        **call,
    }
    what = f"{tactic} {shape} batch {batch} {activation} {'with all epilogues' if full else 'plain'}"
    expected = reference.ACTIVATIONS[activation](linear(product))
    out = reference.Output.make(tuple(expected.shape), config["d"], aligned=aligned)
    return Case(record, what, k, out, expected, arguments)


def check(record: KernelRecord, shape: tuple[int, int, int], **how: Any) -> None:
    """As `case_of`: runs and compares."""
    case = case_of(record, shape, **how)
    case.run()
    case.check()


def cutting(record: KernelRecord, k: int = 4096) -> list[Tactic]:
    """The kernel as it is, and where it cuts so much k, in each way; a lean one in each kind of cluster."""
    if mainloop_of(record) == "lean":
        whole = [Tactic(record.name, cluster=cluster) for cluster in ("", "2x1", "1x2", "2x2", "1x4", "8x1")]
        stages = -(-k // record.config["tile"][2])
        ways = (("", 2), ("", 7), ("2x1", 3), ("", 8), ("2x1", 4), ("2x2", 2))
        in_memory = () if gated(record) else (("", 3), ("2x1", 5), ("", 9))
        cut = [Tactic(record.name, cluster, splits=n) for cluster, n in ways if n <= stages]
        return (
            whole
            + [
                Tactic(record.name, cluster, decomposition="split_k", splits=n)
                for cluster, n in in_memory
                if n <= stages
            ]
            + (cut if record.facts["splits"] else [])
        )
    if mainloop_of(record) == "stream":
        return [Tactic(record.name, splits=splits) for splits in Stream.SPLITS]
    if mainloop_of(record) == "mma":
        parts = [n for n in (3, 5, 9) if n <= -(-k // record.config["tile"][2])]
        return [Tactic(record.name), *(Tactic(record.name, decomposition="split_k", splits=n) for n in parts)]
    if record.config["scheduler"] != "stream_k":
        return [Tactic(record.name)]
    return [
        Tactic(record.name, decomposition="data_parallel"),
        Tactic(record.name, decomposition="stream_k"),
        Tactic(record.name, decomposition="split_k", splits=3),
    ]


def test_odd_shapes(kernel: KernelRecord) -> None:
    taken = list(shapes(kernel, ODD))
    for shape in taken:
        check(kernel, shape)
        check(kernel, shape, full=True)
    if not taken:
        pytest.skip("TMA's alignment excludes every odd shape")


def test_large_shapes(kernel: KernelRecord) -> None:
    for shape in LARGE:
        check(kernel, shape)
        check(kernel, shape, full=True)


def test_clusters_and_splits(kernel: KernelRecord) -> None:
    """Several waves of tiles, with a last one that no cluster fills, and k ranges of unequal length; also
    fewer rows or columns than a tile has."""
    if mainloop_of(kernel) == "cutlass":
        pytest.skip("the kernel's cluster is compiled in")
    for shape in ((1033, 1552, 2064), (72, 784, 2320), (21, 784, 2064), (1033, 48, 2064)):
        for tactic in cutting(kernel):
            check(kernel, shape, tactic=tactic)
            check(kernel, shape, tactic=tactic, full=True)


def test_results_that_are_not_aligned(kernel: KernelRecord) -> None:
    """Threads store them: whole ones, whose rows begin anywhere, and the ends of rows of odd lengths."""
    if not (mainloop_of(kernel) == "stream" or (mainloop_of(kernel) in BOXED and kernel.facts["splits"])):
        pytest.skip("the kernel stores by TMA alone")
    for shape in ((150, 264, 200), (150, 263, 199), (3, 5, 7)):
        for aligned in (False, True):
            check(kernel, shape, full=True, aligned=aligned)
            check(kernel, shape, tactic=cutting(kernel, shape[2])[-1], aligned=aligned)


def test_other_types_of_c_and_bias(kernel: KernelRecord) -> None:
    """And a bias without a C, which another loop adds."""
    if mainloop_of(kernel) in COMPILED_IN:
        pytest.skip("the kernel's are of D's type")
    m, n, _ = shape = fitted(kernel, (150, 272, 200))
    own, *others = addends(kernel.config["a"], kernel.config["d"])
    several = mainloop_of(kernel) == "stream" or kernel.facts["splits"]
    for c_type, bias_type in [(None, own), *((each, each) for each in others if several)]:
        case = case_of(kernel, shape)
        expected = 0.625 * reference.operands(kernel.config["a"], kernel.config["b"], shape)[2]
        bias = 8 * reference.random((n,), bias_type, seed=4)
        case.arguments |= {"bias": bias, "alpha": 0.625}
        expected = expected + bias.double()
        if c_type is not None and not gated(kernel):
            c = reference.random((m, n), c_type, seed=3)
            case.arguments |= {"c": c, "beta": -1.625}
            expected = expected - 1.625 * c.double()
        case.wanted = reference.ACTIVATIONS[case.arguments["activation"]](expected)
        case.what += f" c of {c_type}, bias of {bias_type}"
        case.run()
        case.check()


def test_amax_is_raised_and_nan_stays(kernel: KernelRecord) -> None:
    if kernel.config["d"] not in FP8:
        pytest.skip("its results are not scaled")
    for tactic in cutting(kernel, 512):
        case = case_of(kernel, (200, 272, 512), full=True, tactic=tactic)
        case.arguments["amax"].fill_(1e6)
        case.run()
        assert float(case.arguments["amax"]) == 1e6
        case.arguments["a"][5, 3] = math.nan
        case.run()
        assert math.isnan(float(case.arguments["amax"]))


def test_batches(kernel: KernelRecord) -> None:
    check(kernel, (144, 272, 336), batch=3)
    check(kernel, (144, 272, 336), batch=3, full=True)


def test_batches_in_clusters_and_parts(kernel: KernelRecord) -> None:
    """Tiles that fill no cluster, and rows of D that TMA cannot store."""
    if mainloop_of(kernel) in COMPILED_IN:
        pytest.skip("the kernel's cluster is compiled in")
    aligned_alone = mainloop_of(kernel) == "lean" and not kernel.facts["splits"]
    for i, tactic in enumerate(cutting(kernel, 2064)[3::4]):  # a cluster, parts in memory, parts of a cluster
        aligned = aligned_alone or i == 0
        check(
            kernel, (150, 272 if aligned else 271, 2064), batch=3, tactic=tactic, full=True, aligned=aligned
        )


def test_an_operand_of_a_whole_batch(kernel: KernelRecord) -> None:
    """A matrix for every batch, of A, of B and of C, beside others that have one each."""
    if mainloop_of(kernel) == "cutlass":
        pytest.skip("tests/gpu/test_gemm_on_gpu.py has CUTLASS's")
    m, n, k = fitted(kernel, (150, 272, 528))
    all_ways = cutting(kernel, k)
    ways = all_ways[2::5] or all_ways[-1:]
    forms = [("a", "", False), ("b", "1x2", False)] if kernel.config.get("plain_forms") else []
    whole_batch = [(name, ways[i % len(ways)], True) for i, name in enumerate(("a", "b", "c"))]
    for name, tactic, full in whole_batch + [(n, Tactic(kernel.name, cluster=c), f) for n, c, f in forms]:
        case = case_of(kernel, (m, n, k), batch=3, full=full, tactic=tactic)
        if name not in case.arguments:
            continue
        own = case.arguments[name]
        whole = {"a": (3, m, k), "b": (3, k, n), "c": (3, m, n)}[name]
        single = own[1]
        case.arguments[name] = single
        each = single.expand(whole)
        call = case.arguments | {name: each}
        product = call["a"].double() @ call["b"].double()
        linear = full_epilogue(kernel, (3, m, n), k)[1] if full else lambda product: product
        expected = linear(product)
        if name == "c":
            expected = expected - call["beta"] * (own.double() - each.double())
        case.wanted = reference.ACTIVATIONS[case.arguments["activation"]](expected)
        case.what += f", one {name}"
        case.run()
        case.check()


def test_raster_and_swizzle(kernel: KernelRecord) -> None:
    if mainloop_of(kernel) == "stream":
        pytest.skip("the kernel has no order of tiles")
    for raster in ("along_m", "along_n"):
        for swizzle in (1, 2, 8):
            check(kernel, (1040, 2064, 528), tactic=Tactic(kernel.name, raster=raster, swizzle=swizzle))


def test_c_is_added_in_place_and_not_read_without_beta(kernel: KernelRecord) -> None:
    if kernel.config["c"] != "same":
        pytest.skip("the kernel adds no C")
    for shape in [(1000, 1008, 1008), (256, 512, 1024)]:
        for tactic in cutting(kernel, shape[2]):
            case = case_of(kernel, shape, full=True, tactic=tactic)
            if addend(kernel) == kernel.config["d"]:  # nothing is added to FP8 in place
                case.out.view.copy_(case.arguments["c"])
                case.arguments["c"] = case.out.view
                case.run()
                case.check("in place")
            unread = case_of(kernel, shape, tactic=tactic)
            poisoned = reference.poison(tuple(unread.out.view.shape), reference.DTYPES[addend(kernel)])
            unread.arguments |= {"c": poisoned, "beta": 0.0}
            unread.run()
            unread.check("beta 0")


def test_waits_for_the_kernel_before(kernel: KernelRecord) -> None:
    """Programmatic launch starts it early: nothing is read, or written, ahead of its time."""
    ways = [(tactic, True) for tactic in cutting(kernel, 1024)]
    if kernel.config.get("plain_forms"):
        ways += [(Tactic(kernel.name, cluster=cluster), False) for cluster in ("", "2x1")]
    for tactic, full in ways:
        case = case_of(kernel, (256, 512, 1024), full=full, tactic=tactic)
        operands = {name: each for name, each in case.arguments.items() if isinstance(each, torch.Tensor)}
        assert {"a", "b"} <= operands.keys()
        check_waits(operands, {"d": case.out.view}, case.run, case.check)


@pytest.fixture
def filled_workspaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The sizes of workspaces, which are full of what others may have left there: NaN, zeros, a number."""
    maker, sizes = workspace.maker, list[int]()

    def filling(size: int, device: torch.device) -> Callable[[], torch.Tensor | None]:
        make = maker(size, device)

        def filled() -> torch.Tensor | None:
            room = make()
            if room is None:
                return None
            sizes.append(size)
            return room.fill_((0xFF, 0, 0x41)[len(sizes) % 3])

        return filled

    monkeypatch.setattr(workspace, "maker", filling)
    current().plans.clear()  # they hold the function that was
    yield sizes
    current().plans.clear()


def test_decompositions(kernel: KernelRecord, filled_workspaces: list[int]) -> None:
    """Whatever a workspace held before."""
    if gated(kernel):
        pytest.skip("the kernel has no workspace")
    if mainloop_of(kernel) in BOXED:
        for shape in shapes(
            kernel, [(1033, 272, 4104), (256, 512, 4096), (3000, 1536, 3072), (72, 131, 4096)]
        ):
            for tactic in cutting(kernel, shape[2]):
                if tactic.decomposition == "split_k":
                    check(kernel, shape, tactic=tactic, full=tactic.splits == 5)
        assert len(filled_workspaces) >= 9, "so many launches had none"
        return
    if kernel.config["scheduler"] != "stream_k":
        pytest.skip("the kernel does not split k")
    for shape in [*list(shapes(kernel, ODD))[-1:], (256, 512, 16384), (2048, 4096, 7168)]:
        for reduction in ("deterministic", "nondeterministic"):
            for decomposition in ("data_parallel", "stream_k"):
                check(
                    kernel,
                    shape,
                    tactic=Tactic(kernel.name, decomposition=decomposition, reduction=reduction),
                )
            for splits in (2, 3, 7):
                tactic = Tactic(kernel.name, decomposition="split_k", splits=splits, reduction=reduction)
                check(kernel, shape, tactic=tactic, full=splits == 3)
    assert len(filled_workspaces) >= 12, "so many launches had none"


def test_parts_of_one_wave(kernel: KernelRecord) -> None:
    """By split forms (gemm/split_form.hpp), in each kind of cluster and with 2 to 16 parts, whose sums one,
    two or four warps add up; of tiles outside of D, and of D whose columns are no whole pairs."""
    if not kernel.config.get("split_form"):
        pytest.skip("the kernel has no split form")
    kinds = (("", 2), ("2x1", 4), ("1x2", 5), ("4x1", 8), ("1x4", 13), ("2x2", 16), ("4x2", 3))
    for cluster, splits in kinds:
        tactic = Tactic(kernel.name, cluster, decomposition="split_k", splits=splits)
        for shape in shapes(kernel, [(24, 104, 2056), (136, 152, 2112), (8, 136, 4104), (72, 24, 2048)]):
            check(kernel, shape, tactic=tactic)
            check(kernel, shape, tactic=tactic, full=True)
        if kernel.facts["splits"]:  # else D's rows have to be aligned
            check(kernel, (24, 104, 2056), tactic=tactic, aligned=False)
        for shape in shapes(kernel, [(24, 103, 2056), (17, 104, 2056)]):
            check(kernel, shape, tactic=tactic)
        case = case_of(kernel, (24, 104, 2048), tactic=tactic)
        operands = {name: each for name, each in case.arguments.items() if isinstance(each, torch.Tensor)}
        check_waits(operands, {"d": case.out.view}, case.run, case.check)


def test_k_ranges_of_a_cluster_in_one_wave(kernel: KernelRecord) -> None:
    """By the split form for clusters (gemm/split_form.hpp), in each kind of cluster and with 2 to 8 k ranges;
    of tiles outside of D, and of shares that are empty or one column group more than others."""
    if not (kernel.config.get("split_form") and kernel.facts["splits"]):
        pytest.skip("the kernel has no split form for clusters")
    kinds = (("", 2), ("", 3), ("", 8), ("2x1", 4), ("1x2", 3), ("4x1", 2), ("1x4", 2), ("2x2", 2))
    for cluster, splits in kinds:
        tactic = Tactic(kernel.name, cluster, splits=splits)
        for shape in shapes(kernel, [(24, 104, 2056), (136, 152, 2112), (8, 136, 4104), (72, 24, 2048)]):
            check(kernel, shape, tactic=tactic)
            check(kernel, shape, tactic=tactic, full=True)
        case = case_of(kernel, (24, 104, 2048), tactic=tactic)
        operands = {name: each for name, each in case.arguments.items() if isinstance(each, torch.Tensor)}
        check_waits(operands, {"d": case.out.view}, case.run, case.check)


def test_deterministic_reduction_repeats_to_the_bit(kernel: KernelRecord) -> None:
    if mainloop_of(kernel) in ("lean", "stream"):
        several = mainloop_of(kernel) == "stream" or kernel.facts["splits"]
        cut = [Tactic(kernel.name, splits=splits) for splits in (2, 8) if several]
        if mainloop_of(kernel) == "lean" and not gated(kernel):
            cut.append(Tactic(kernel.name, "2x1", decomposition="split_k", splits=11))
    elif mainloop_of(kernel) == "mma":
        cut = [Tactic(kernel.name, decomposition="split_k", splits=11)]
    elif kernel.config["scheduler"] == "stream_k":
        cut = [Tactic(kernel.name), Tactic(kernel.name, decomposition="split_k", splits=5)]
    else:
        pytest.skip("the kernel does not split k")
    config = kernel.config
    shape = fitted(kernel, (256, 512, 16384))
    a, b, _ = reference.operands(config["a"], config["b"], shape)
    a = reference.embed(a, row_major=config["layout"][0] == "t")
    b = reference.embed(b, row_major=config["layout"][1] == "t")
    call = {
        "activation": activation_of(kernel, shape),
        "fast_accum": config["fast_accum"],
        "out_dtype": reference.DTYPES[config["d"]],
    }
    for tactic in cut:
        first = tilewright.gemm(a, b, tactic=tactic, **call)
        for _ in range(5):
            assert torch.equal(tilewright.gemm(a, b, tactic=tactic, **call), first), str(tactic)
