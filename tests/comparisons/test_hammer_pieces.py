"""What the hammer (tests/gpu/test_hammer.py) runs, counts and records, as far as it needs no GPU."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import hammer
import pytest
import test_hammer
import torch
from hammer_case import UNIT, Case
from hammer_operands import far_apart
from hammer_problems import CASES, cases

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import WrongResultError
from tilewright.families.gemm.problem import GATED
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of

PAGE = 4096
Fault = Callable[[hammer.Views], object]


@functools.cache
def registry() -> Registry:
    return Registry()


def of_hopper(family: str) -> list[KernelRecord]:
    return list(registry().route(family, H200))


def test_every_family_of_hopper_has_problems() -> None:
    families = {table.family for table in registry().tables.values()}
    assert set(CASES) == {family for family in families if registry().runnable(family, H200.capability)}


@pytest.mark.parametrize("family", CASES)
def test_problems_are_legal_for_every_kernel(family: str) -> None:
    """By the rules with which selection takes a tactic that a caller demands; each kernel has several."""
    kernels = of_hopper(family)
    assert kernels
    for record in kernels:
        several = cases(family, record)
        only = (
            record.config.get("mainloop") == "mma" and record.config["layout"] == "nt"
        )  # no clusters to vary
        assert len(several) >= (1 if only else 2), record.name
        for case in several:
            legal = family_of(family).legal(registry(), kernels, case.problem, H200, case.tactic)
            assert legal.name == record.name


def _divides_k(record: KernelRecord) -> bool:
    """Whether a lean kernel divides k: in a cluster, or, unless its activation is gated, in memory."""
    return bool(record.facts["splits"]) or record.config["activation"] not in GATED


def test_lean_kernels_run_whole_and_partial_tiles_with_few_stages_clusters_and_parts_of_k() -> None:
    for record in (kernel for kernel in of_hopper("gemm") if kernel.config["mainloop"] == "lean"):
        several = cases("gemm", record)
        m, n, k = record.config["tile"]
        rows, columns = (n, m) if record.config["swap_ab"] else (m, n)
        # Where A has m contiguous, the hammer's m are multiples of UNIT: tiles of no more rows are whole.
        if record.config["layout"][0] == "t" or rows > UNIT:
            assert any(case.problem.m > rows and case.problem.m % rows for case in several)
        assert any(case.problem.n > columns and case.problem.n % columns for case in several)
        assert min(case.problem.k for case in several) == k
        first = several[0].problem
        assert -(-first.m // rows) * -(-first.n // columns) > 3 * H200.sm_count
        assert any(case.tactic.cluster for case in several)
        assert any(case.tactic.splits > 1 for case in several) or not _divides_k(record)


SEEN = [
    ("grouped_gemm_sm90_bf16_bf16_bf16_256x128x64", 8192, 64),
    ("grouped_gemm_sm90_bf16_bf16_bf16_256x128x64", 8192, 128),
    ("grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_256x96x128", 8064, 128),
]


@pytest.mark.parametrize(("name", "n", "k"), SEEN)
def test_problems_that_were_seen_to_fail_are_there(name: str, n: int, k: int) -> None:
    record = registry().record(name)
    actual = [
        case for case in cases("grouped_gemm", record)
        if (case.problem.n, case.problem.k, case.problem.groups, case.problem.grouping) == (n, k, 48, "ends")
    ]  # fmt: skip
    (case,) = actual
    begins = [0, *(-(-end // case.problem.row_alignment) * case.problem.row_alignment for end in case.groups)]
    rows = [end - begin for begin, end in zip(begins, case.groups, strict=False)]
    assert rows == [257, 300, 129, 400] * 12
    assert case.problem.m == case.groups[-1]


def of_groups() -> list[KernelRecord]:
    """Hopper's kernels of `grouped_gemm` whose rows may belong to groups."""
    return [record for record in of_hopper("grouped_gemm") if not record.config["constant_b"]]


def test_every_grouped_kernel_of_rows_stores_much_for_little_that_it_multiplies() -> None:
    for record in of_groups():
        actual = [
            case.problem
            for case in cases("grouped_gemm", record)
            if (case.problem.grouping, case.problem.groups) == ("ends", 48) and case.problem.n >= 3300
        ]
        stage = record.config["tile"][2]
        assert {problem.k for problem in actual} >= (
            {stage, 2 * stage} if record.config["layout"] != "nt" else set()
        )


def test_grouped_kernels_run_every_grouping_that_they_have() -> None:
    for record in of_groups():
        several = cases("grouped_gemm", record)
        actual = {case.problem.grouping for case in several}
        rows = {"ends", "row_index", "rows_valid"} if record.config["layout"] != "nt" else set()
        dense = {"none"} if record.config["scales"] != "none" else set()
        assert rows | dense <= actual
        assert all(
            sum(case.groups) == case.problem.k for case in several if case.problem.grouping == "k_sizes"
        )
        assert all(len(case.groups) == case.problem.groups for case in several if case.groups)
    kinds = {(case.problem.a, case.problem.grouping) for record in of_hopper("grouped_gemm")
             for case in cases("grouped_gemm", record)}  # fmt: skip
    assert {("bf16", "k_sizes"), ("e4m3", "k_sizes")} <= kinds


def test_kernels_of_constant_weights_run_products_without_groups() -> None:
    constant = [record for record in of_hopper("grouped_gemm") if record.config["constant_b"]]
    assert constant
    for record in constant:
        problems = [case.problem for case in cases("grouped_gemm", record)]
        assert {(problem.grouping, problem.constant_b) for problem in problems} == {("none", True)}
        assert {problem.k // record.config["tile"][2] for problem in problems} >= {1, 3}  # stages


def written() -> dict[str, torch.Tensor]:
    """A result in a wider tensor, and another one of odd size."""
    wide = torch.zeros(6, 24, dtype=torch.bfloat16)
    return {"out": wide[1:, 8:20], "scales": torch.zeros(77)}


def places(count: int = 5) -> hammer.Places:
    return hammer.Places(hammer.arena(count * PAGE, "cpu"), written(), PAGE)


def test_places_are_poison_begin_other_pages_and_lie_as_the_result() -> None:
    some, like = places(), written()
    assert some.count == 5
    assert some.bytes == 512 + 512
    addresses = []
    for place in range(some.count):
        views = some.views(place)
        for name, tensor in like.items():
            view = views[name]
            assert (view.shape, view.stride(), view.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
            assert bool(view.isnan().all())
        addresses.append(views["out"].data_ptr())
    assert [address - addresses[0] for address in addresses] == [PAGE * place for place in range(some.count)]


class Kernel:
    """Writes ones; the runs in `faults` write by the function there."""

    def __init__(self, faults: dict[int, Fault]) -> None:
        self.runs, self._faults = 0, faults

    def __call__(self, views: hammer.Views) -> None:
        for view in views.values():
            assert bool(view.isnan().all()), "a place was not poisoned again"
        if self._faults.get(self.runs) is not nothing:
            for view in views.values():
                view.fill_(1)
            self._faults.get(self.runs, nothing)(views)
        self.runs += 1


def nothing(views: hammer.Views) -> None:
    """What a kernel does that leaves D as it was."""


def one_element(views: hammer.Views) -> None:
    views["out"][4, 11] = 1.0078125  # the next number in BF16


def another_result(views: hammer.Views) -> None:
    views["scales"][76] = -1


def around(views: hammer.Views) -> None:
    views["out"].as_strided((1,), (1,), views["out"].storage_offset() - 1).fill_(1)


def test_runs_beside_a_neighbour_are_through_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that go on would write results among the poison of the next kernel's places."""
    neighbour, happened = object.__new__(hammer.Neighbour), list[str]()
    neighbour._runs = None  # of torch.cuda.stream, which then changes nothing
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: happened.append("all through"))

    def fail() -> None:
        happened.append("runs")
        raise MemoryError

    with pytest.raises(MemoryError), neighbour.filling():
        fail()
    assert happened == ["all through", "runs", "all through"]


@pytest.mark.parametrize("runs", [1, 5, 64, 203])
def test_every_wrong_run_is_counted_once(runs: int) -> None:
    some = places()
    Kernel({})(some.views(0))
    expected = some.words[0].clone()
    some.poison(0, 1)
    faults = {0: one_element, 3: another_result, 4: nothing, 63: around, 64: one_element, 202: nothing}
    actual = hammer.count_wrong(Kernel(faults), some, expected, runs, beside=hammer.Nothing())
    assert actual == sum(run < runs for run in faults)
    assert bool((some.words == -1).all())


def test_quiet_runs_that_differ_are_noticed() -> None:
    assert hammer.quiet_runs_equal(Kernel({}), places(), 3)
    for fault in (one_element, another_result, around, nothing):
        assert not hammer.quiet_runs_equal(Kernel({2: fault}), places(), 3)


def test_results_of_kernels_may_differ_by_rounding_alone() -> None:
    torch.manual_seed(0)
    expected = torch.randn(3000, 40).bfloat16()
    expected[7, 7] = float("nan")
    operands = SimpleNamespace()
    assert far_apart(operands, expected.clone(), expected) == 0
    assert far_apart(operands, (expected.float() * (1 + 2**-8)).bfloat16(), expected) == 0
    actual = expected.clone()
    actual[2999, 39] += 1
    actual[7, 7], actual[8, 8] = 0, float("nan")
    assert far_apart(operands, actual, expected) == 3


class Operands:
    """A call that writes ones: the kernel under test as `kernel` does, any other one rightly."""

    def __init__(self, kernel: Kernel) -> None:
        self._written, self.kernel = ("out", "scales"), kernel
        self.out, self.scales = written().values()

    def call(self, tactic: Tactic) -> None:
        views = {"out": self.out, "scales": self.scales}
        (self.kernel if tactic.kernel == NAME else Kernel({}))(views)

    def check(self) -> None:
        if not bool((self.out == 1).all() and (self.scales == 1).all()):
            raise WrongResultError("its check says so")


class Beside(hammer.Nothing):
    def filling(self) -> AbstractContextManager[None]:
        return nullcontext()


NAME = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
OTHER = "gemm_sm90_bf16_bf16_f32_bf16_tn_64x128x64_lean_coop"
ALWAYS: dict[int, Fault] = dict.fromkeys(range(1000), one_element)
DIFFERING: dict[int, Fault] = {0: one_element, 1: another_result}


@pytest.mark.parametrize(
    ("faults", "type", "wrong", "what"),
    [
        ({}, "bf16", 0, "0 of 43"),
        ({3 + 7: one_element, 3 + 39: nothing, 3 + 40: nothing}, "bf16", 2, "2 of 43"),
        (ALWAYS, "bf16", 43, "43 of 43, .*its check says so"),  # of another kernel's bits
        (DIFFERING, "bf16", 2, "2 of 43, .*quiet runs differ"),
        (ALWAYS, "e4m3", 43, "alone, .*its check says so"),
        (DIFFERING, "e4m3", 43, "alone, .*quiet runs differ"),
    ],
)
def test_a_case_counts_runs_that_are_wrong_alone_or_beside_a_neighbour(
    monkeypatch: pytest.MonkeyPatch,
    faults: dict[int, Fault],
    type: str,
    wrong: int,
    what: str,
) -> None:
    """Where kernels have equal bits, another one's are the right ones if the quiet runs are wrong."""
    arena = hammer.arena(7 * hammer.PAGE, "cpu")
    monkeypatch.setattr(test_hammer, "machine", lambda: test_hammer.Machine(arena, Beside()))
    monkeypatch.setattr(test_hammer, "operands_of", lambda family, case: Operands(Kernel(faults)))
    monkeypatch.setattr(test_hammer, "other_kernel", lambda *given: SimpleNamespace(name=OTHER))
    case = Case(SimpleNamespace(a=type), Tactic(NAME))
    result = test_hammer.hammer_case("gemm", registry().record(NAME), case, 40)
    assert (result.runs, result.wrong) == (43, wrong)
    assert re.search(what, result.what)
    assert bool((arena.view(torch.int64) == -1).all())


def test_another_kernel_has_another_tile_and_computes_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "is_built", lambda self, record: True)
    for family in ("gemm", "grouped_gemm", "reduced_gemm"):
        for record in of_hopper(family)[::9]:
            for case in cases(family, record):
                other = test_hammer.other_kernel(family, record, case)
                if other is not None:
                    assert other.config["tile"] != record.config["tile"]
                    assert family_of(family).misfit(other, case.problem) is None
    lean = registry().record(NAME)
    assert all(test_hammer.other_kernel("gemm", lean, case) is not None for case in cases("gemm", lean))
