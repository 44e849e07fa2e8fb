"""Selection with tuned entries: exact, by bucket, built or not; choices that are remembered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from altered import altered

from tilewright.architectures.device import B200, H200, DeviceProperties
from tilewright.base import paths
from tilewright.context import MAX_CHOICES, Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import choice as selection
from tilewright.selection import tuned_files
from tilewright.selection.choice import Choice, choose
from tilewright.selection.estimates import Estimate
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.near import near

N, K = 4096, 4096
EVERY = ("big", "medium", "small", "split")


class Place:
    """A context of four kernels, of which `built` are, and its tuned file."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self.path = paths.tuned_file(folder, H200.name, "gemm")
        self.context = Context(registry)

    def tune(self, **tactics: str) -> None:
        """`m32="small"`: for m of 32."""
        registry = self.context.registry
        header = Header.of(H200, registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")
        entries = [
            Entry(Problem(int(name[1:]), N, K), Tactic.parse(tactic), 1e-5)
            for name, tactic in tactics.items()
        ]
        tuned_writing.update(self.path, header, FAMILY, entries)
        self.context.forget_tuned()

    def choose(self, m: int, **fields: Any) -> Choice:
        return self.context.select(FAMILY, Problem(m, **({"n": N, "k": K} | fields)), H200)


@pytest.fixture
def place(tmp_path: Path, table, row, built, monkeypatch: pytest.MonkeyPatch):
    """Makes a Place, given the kernels that are built."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    rows = [
        row("big", tile=[128, 256, 64]),
        row("medium", tile=[128, 128, 64], schedule="pingpong"),
        row("small", tile=[64, 32, 128], schedule="pingpong", swap_ab=True),
        row("split", tile=[128, 128, 64], scheduler="stream_k"),
    ]
    table(tmp_path / "project" / "generated", "sm90_x", rows)

    def make(*of: str) -> Place:
        lacking = tuple(name for name in EVERY if name not in of)
        library = built(Path("x.so"), lacking)
        registry = Registry(tmp_path / "project" / "generated", libraries=lambda module: [library])
        return Place(tmp_path / "tuned", registry)

    return make


def test_an_exact_entry_goes_before_the_model_and_ranks_nothing(place) -> None:
    here = place(*EVERY)
    first = here.choose(2048)
    assert (first.source, first.tactic.kernel) == ("model", "big")
    here.tune(m2048="split@swizzle=4,decomposition=stream_k")

    def fails(*arguments: object) -> None:
        raise AssertionError("ranked")

    family = altered(FAMILY, candidates=fails, estimator=fails)
    chosen = here.context.select(family, Problem(2048, N, K), H200)
    assert str(chosen.tactic) == "split@swizzle=4,decomposition=stream_k"
    assert (chosen.source, chosen.record.name) == ("tuned", "split")
    assert "10.00 us were measured" in chosen.why


def test_what_won_for_problems_like_one(place, row, table) -> None:
    """Of half to twice the m, the nearest first, and of another type by the kernel that is the same."""
    here = place(*EVERY)
    folder = here.context.registry.folders[0]
    others = [row("half", tile=[128, 128, 64], schedule="pingpong", a="f16", b="f16", d="f16")]
    table(folder, "sm90_f16", others)
    here = Place(here.path.parents[1], Registry(folder, libraries=here.context.registry._find_libraries))
    here.tune(
        m32="small@splits=1,swizzle=2", m100="big", m128="medium@raster=along_m", m64="medium", m257="big"
    )
    tuned = here.context.tuned(FAMILY, H200)
    assert tuned is not None

    def won_near(problem: Problem) -> list[str]:
        return list(map(str, near(tuned.entries, problem, FAMILY, here.context.registry, H200)))

    of = {m: won_near(Problem(m, N, K)) for m in (128, 64, 8)}
    assert of == {
        128: ["medium@raster=along_m", "big", "medium"],
        64: ["medium", "big", "small@swizzle=2", "medium@raster=along_m"],
        8: [],
    }
    assert won_near(Problem(128, N, 2 * K)) == []
    half = won_near(Problem(128, N, K, a="f16", b="f16", d="f16"))
    assert half == ["half@raster=along_m", "half"]
    assert won_near(Problem(128, N, K, layout="nn")) == []


@pytest.mark.parametrize(
    ("tuned", "m", "wanted"),
    [
        ((64, 32), 40, 64),  # above goes first, though 32 is nearer
        ((64, 48), 40, 48),  # the nearest above
        ((80,), 40, None),  # 2m is too far
        ((79,), 40, 79),
        ((20,), 40, None),  # m/2 is too far
        ((21,), 40, 21),
        ((24, 36), 40, 36),  # the nearest below
    ],
)
def test_which_neighbour_a_bucket_takes(
    place, monkeypatch: pytest.MonkeyPatch, tuned: tuple[int, ...], m: int, wanted: int | None
) -> None:
    monkeypatch.setattr(selection, "BUCKET_WITHIN", 100.0)
    here = place(*EVERY)
    here.tune(**{f"m{other}": f"split@decomposition=split_k,splits={2 + i}" for i, other in enumerate(tuned)})
    chosen = here.choose(m)
    if wanted is None:
        assert chosen.source == "model"
    else:
        assert chosen.source == "bucket"
        assert chosen.tactic.splits == 2 + tuned.index(wanted)
        assert chosen.why == f"tuned for m of {wanted}, the nearest"


def test_a_family_says_in_which_extent_neighbours_differ(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file, too, they stand together."""
    monkeypatch.setattr(selection, "BUCKET_WITHIN", 100.0)
    here, family = place(*EVERY), altered(FAMILY, neighbour="n")
    here.tune(m64="small")
    chosen = here.context.select(family, Problem(64, N - 8, K), H200)
    assert (chosen.source, chosen.why) == ("bucket", f"tuned for n of {N}, the nearest")
    assert here.context.select(family, Problem(48, N, K), H200).source == "model"
    header = tuned_files.read(here.path).header
    entries = [Entry(Problem(m, n, K), Tactic("small"), 1e-5) for m in (64, 32) for n in (N, 512)]
    for extent, expected in (("n", [(32, 512), (32, N), (64, 512), (64, N)]),
                           ("m", [(32, 512), (64, 512), (32, N), (64, N)])):  # fmt: skip
        tuned_writing.update(here.path, header, altered(FAMILY, neighbour=extent), entries)
        (section,) = tuned_files.read(here.path).sections
        assert [(row["m"], row["n"]) for row in section.rows] == expected


@pytest.mark.parametrize("fields", [{"n": 2048}, {"k": 2048}, {"batch": 2}, {"bias": False, "d": "f32"}])
def test_a_bucket_is_of_one_n_k_batch_and_kind(place, fields: dict[str, Any]) -> None:
    here = place(*EVERY)
    here.tune(m64="small")
    assert here.choose(48).source == "bucket"
    if "d" in fields:
        with pytest.raises(NoKernelError):
            here.choose(48, **fields)
    else:
        assert here.choose(48, **fields).source == "model"


def test_a_bucket_that_has_not_seen_the_models_first_is_passed_over(
    place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known to be faster than what came after it; what it has seen, it was measured against."""
    monkeypatch.setattr(selection, "BUCKET_WITHIN", 100.0)
    here = place(*EVERY)
    first = here.choose(48).tactic.kernel
    second = next(name for name in EVERY if name != first)
    header = Header.of(H200, here.context.registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")
    for seen, source in ((EVERY, "bucket"), ([name for name in EVERY if name != first], "model")):
        here.path.unlink(missing_ok=True)
        entry = Entry(Problem(64, N, K), Tactic(second), 1e-5, frozenset(seen))
        tuned_writing.update(here.path, header, FAMILY, [entry])
        here.context.forget_tuned()
        assert here.choose(48).source == source


def estimating(seconds: dict[str, float], **there: float) -> Any:
    """The family, with a model that says so many seconds of each kernel; `there`: of some for m of 64."""

    def estimator(record: KernelRecord, problem: Problem, device: DeviceProperties) -> Any:
        known = seconds | there if problem.m == 64 else seconds
        actual = Estimate(known[record.name], 1, "math", known[record.name], 0.0)
        return lambda tactic: actual

    return altered(FAMILY, estimator=estimator)


@pytest.mark.parametrize("checked", [False, True])
def test_what_a_process_tunes_goes_before_files(place, checked: bool) -> None:
    """Whether the file's section was checked before or is checked afterwards."""
    here = place(*EVERY)
    here.tune(m64="small", m65="medium")
    tuned = here.context.tuned(FAMILY, H200)
    assert tuned is not None
    if checked:
        assert tuned.exact(Problem(64, N, K)) == Tactic("small")
    tuned.prefer([Entry(Problem(64, N, K), Tactic("big"), 1e-6)])
    assert [tuned.exact(Problem(m, N, K)) for m in (64, 65)] == [Tactic("big"), Tactic("medium")]


@pytest.mark.parametrize(
    ("small_there", "big_there", "source"),
    [
        (1.5, 1.0, "bucket"),  # the model has it as far behind on both sides: it errs, as was measured
        (3.0, 2.0, "bucket"),  # and both gain as much
        (1.48, 1.0, "bucket"),
        (1.44, 1.0, "model"),  # it loses on the way: its tiles are less full, or its waves
        (1.5, 1.06, "model"),  # the model's first gains
        (1.5, 0.5, "bucket"),
    ],
)
def test_a_bucket_must_not_lose_against_the_models_first_on_the_way(
    place, small_there: float, big_there: float, source: str
) -> None:
    """Where tiles are quantised alike, the two stand to each other as they do at the neighbour."""
    here = place(*EVERY)
    here.tune(m64="small")
    seconds = {"big": 1e-3, "medium": 2e-3, "split": 2e-3, "small": 1.5e-3}
    family = estimating(seconds, small=1e-3 * small_there, big=1e-3 * big_there)
    chosen = here.context.select(family, Problem(48, N, K), H200)
    assert chosen[2:3] == (source,)
    assert chosen.tactic.kernel == ("small" if source == "bucket" else "big")


def test_without_jit_a_bucket_is_judged_by_the_first_built(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's first is far ahead of the neighbour's kernel, and cannot run."""
    seconds = {"big": 1e-3, "medium": 2e-3, "split": 2e-3, "small": 1.5e-3}
    here = place("medium", "small", "split")
    here.tune(m64="small")
    family = estimating(seconds, small=1.0e-3, medium=1.0e-3)
    problem = Problem(48, N, K)
    assert here.context.select(family, problem, H200).source == "model"
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    chosen = here.context.select(family, problem, H200)
    assert (chosen.source, chosen.tactic.kernel) == ("bucket", "small")


def test_a_tile_that_only_just_holds_the_neighbour_is_no_bucket_below(place) -> None:
    """By the model itself: what fits 128 rows exactly leaves half of its tile empty for 65."""
    here = place(*EVERY)
    here.tune(m128="medium")
    assert here.choose(128).source == "tuned"
    assert here.choose(65).source == "model"


@pytest.mark.parametrize(("behind", "wanted"), [(0.01, "medium"), (0.09, "medium"), (0.11, "big")])
@pytest.mark.parametrize("tuned", [False, True])
def test_how_far_behind_a_built_kernel_may_be(
    place, tuned: bool, behind: float, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further behind the tuned kernel, or the model's first, a built kernel is not taken, also lazily."""
    monkeypatch.setenv("TILEWRIGHT_JIT", "lazy")
    here = place("medium")
    if tuned:
        here.tune(m64="big")
    family = estimating({"big": 1e-3, "medium": 1e-3 * (1 + behind), "split": 2e-3, "small": 2e-3})
    assert here.context.select(family, Problem(64, N, K), H200).tactic.kernel == wanted


def test_an_exact_entry_goes_before_its_neighbours(place) -> None:
    here = place(*EVERY)
    here.tune(m48="small", m64="small@swizzle=2", m40="small@swizzle=4")
    chosen = here.choose(48)
    assert (chosen.source, str(chosen.tactic)) == ("tuned", "small")


def test_a_bucket_must_be_legal(tmp_path: Path, table, row, built, monkeypatch: pytest.MonkeyPatch) -> None:
    """In layout nn, m is contiguous in A: a kernel that takes m of 64 does not take every m."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    wide, narrow = row("wide", layout="nn"), row("narrow", layout="nn")
    wide["facts"]["alignment"]["a"] = 32
    table(tmp_path / "project" / "generated", "sm90_x", [wide, narrow])
    registry = Registry(tmp_path / "project" / "generated", libraries=lambda module: [built(Path("x.so"))])
    header = Header.of(H200, registry, "gemm")
    problem = Problem(64, N, K, layout="nn")
    path = paths.tuned_file(tmp_path / "tuned", H200.name, "gemm")
    tuned_writing.update(path, header, FAMILY, [Entry(problem, Tactic("wide"), 1e-5)])
    context = Context(registry)
    assert context.select(FAMILY, replace(problem, m=96), H200).source == "bucket"
    chosen = context.select(FAMILY, replace(problem, m=48), H200)
    assert (chosen.source, chosen.tactic.kernel) == ("model", "narrow")


def test_a_tuned_kernel_that_is_not_built(place, monkeypatch: pytest.MonkeyPatch) -> None:
    model = place(*EVERY).choose(2048)
    assert model.tactic.kernel == "big"
    # What is built is several times as slow: the tuned one is worth its compiling.
    here = place("small")
    here.tune(m2048="big")
    assert (here.choose(2048).source, here.choose(2048).tactic.kernel) == ("tuned", "big")
    # The built kernel is about as good by the model: that counts only if the user asks for it.
    monkeypatch.setattr(selection, "BUILT_WITHIN", 100.0)
    here.context.forget_tuned()
    assert (here.choose(2048).source, here.choose(2048).tactic.kernel) == ("tuned", "big")
    monkeypatch.setenv("TILEWRIGHT_JIT", "lazy")  # a choice of the other setting is not reused
    chosen = here.choose(2048)
    assert (chosen.source, chosen.tactic.kernel) == ("model", "small")
    assert "about as good as big, which is tuned, not built" in chosen.why


def test_without_jit_only_built_ones_count(place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    here = place("small", "medium")
    here.tune(m2048="big", m64="small")
    assert here.choose(2048)[2:3] == ("model",)
    assert here.choose(2048).tactic.kernel == "medium"
    assert "; big, which is tuned for it, is not built (TILEWRIGHT_JIT=0)" in here.choose(2048).why
    assert here.choose(3000).tactic.kernel == "medium"  # nor by bucket
    assert "TILEWRIGHT_JIT=0" in here.choose(3000).why
    assert here.choose(64).source == "tuned"
    assert here.choose(48).source == "bucket"
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")  # what was chosen under the other setting is not taken
    assert (here.choose(2048).source, here.choose(2048).tactic.kernel) == ("tuned", "big")


def test_the_nearest_of_several_tuned_kernels_that_are_not_built_is_named(
    place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    here = place("small", "medium")
    here.tune(m2048="big", m2100="big@swizzle=2")
    assert "; big, which is tuned for it, is not built (TILEWRIGHT_JIT=0)" in here.choose(2048).why
    assert "; big@swizzle=2, which is tuned for its neighbour, is not built" in here.choose(2080).why


def test_without_a_model_the_tables_order_counts(place, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_unknown(here: Place) -> Choice:
        unknown = altered(FAMILY, estimator=lambda record, problem, device: None)
        records = here.context.registry.route("gemm", H200)
        return choose(unknown, here.context.registry, records, Problem(64, N, K), H200)

    assert of_unknown(place(*EVERY))[0::2] == (Tactic("big"), "default")
    assert of_unknown(place())[0::2] == (Tactic("big"), "default")
    assert of_unknown(place("medium"))[0::2] == (Tactic("big"), "default")
    monkeypatch.setenv("TILEWRIGHT_JIT", "lazy")
    only = of_unknown(place("medium"))
    assert (only.tactic, only.source) == (Tactic("medium"), "default")
    assert "built kernel" in only.why
    none = altered(FAMILY, estimator=lambda record, problem, device: None)
    registry = place(*EVERY).context.registry
    records = registry.route("gemm", H200)
    assert choose(none, registry, records, Problem(64, N, K), H200).source == "default"
    assert none.rank(records, Problem(64, N, K), H200) == []
    with pytest.raises(NoKernelError, match="no gemm kernel computes"):
        choose(none, registry, records, Problem(64, N, K, activation="relu"), H200)


def test_an_architecture_that_no_model_knows(blockscaled_record) -> None:
    record = blockscaled_record("new", arch="sm_140a")
    assert BLOCKSCALED.estimator(record, BLOCKSCALED.problem(512, 512, 512), B200) is None
    assert BLOCKSCALED.rank([record], BLOCKSCALED.problem(512, 512, 512), B200) == []


def test_a_choice_is_made_once(place) -> None:
    here = place("small")
    asked = []
    family = altered(
        FAMILY, does_extra_work=lambda *which: asked.append(which) or FAMILY.does_extra_work(*which)
    )

    def select() -> Choice:
        return here.context.select(family, Problem(64, N, K), H200)

    first = select()
    many = len(asked)
    assert many
    assert select() is first
    assert len(asked) == many
    here.context.registry.refresh()  # what is built may be other than it was
    assert select() == first
    assert len(asked) == 2 * many
    here.context.forget_tuned()
    select()
    assert len(asked) == 3 * many
    demanded = here.context.select(family, Problem(64, N, K), H200, Tactic("big"))
    assert demanded.source == "demanded"
    assert select() == first


def test_choices_are_bounded(place) -> None:
    here = place(*EVERY)
    one = here.choose(64)
    choices = here.context._choices
    for number in range(MAX_CHOICES):
        choices[number] = one
    here.choose(128)
    assert len(choices) <= MAX_CHOICES
    assert here.choose(64) == one


def test_rows_are_not_parsed_to_be_passed_over(tmp_path: Path, table, row) -> None:
    rows = [row("wanted"), *(row(f"other{i}", a="f16", b="f16", d="f16") for i in range(20))]
    path = table(tmp_path, "sm90_x", rows)
    whole, broken = '"tile": [128, 128, 64]', '"tile": [128, 128 64]'
    path.write_text(path.read_text().replace(whole, broken).replace(broken, whole, 1))  # all but the first
    registry = Registry(tmp_path, libraries=lambda module: [])
    records = registry.route("gemm", H200)
    assert len(records) == 21
    assert [one.name for one in FAMILY.of_kind(registry, records, Problem(8, 8, 8).kind)] == ["wanted"]
    assert registry.record("wanted") in records
    assert registry.record("wanted") in records[:1]
    assert registry.record("wanted")._replace(sha256="other") not in records
    assert "wanted" not in records
