"""Selection by the entry of a problem like the one at hand: which neighbour counts, and when none does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from altered import altered
from tuned_places import EVERY, K, N, Place, estimating

from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import choice as selection
from tilewright.selection import tuned_files
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.near import near


def test_what_won_for_problems_like_one(place, row, table) -> None:
    """An entry counts from half to twice its m, the nearest first; in another type, as its kernel there."""
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
def test_which_neighbour_is_the_nearest(
    place, monkeypatch: pytest.MonkeyPatch, tuned: tuple[int, ...], m: int, wanted: int | None
) -> None:
    monkeypatch.setattr(selection, "NEIGHBOUR_WITHIN", 100.0)
    here = place(*EVERY)
    here.tune(**{f"m{other}": f"split@decomposition=split_k,splits={2 + i}" for i, other in enumerate(tuned)})
    chosen = here.choose(m)
    if wanted is None:
        assert chosen.source == "model"
    else:
        assert chosen.source == "neighbour"
        assert chosen.tactic.splits == 2 + tuned.index(wanted)
        assert chosen.why == f"tuned for m of {wanted}, the nearest"


def test_a_family_says_in_which_extent_neighbours_differ(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the file, too, they stand together."""
    monkeypatch.setattr(selection, "NEIGHBOUR_WITHIN", 100.0)
    here, family = place(*EVERY), altered(FAMILY, neighbour="n")
    here.tune(m64="small")
    chosen = here.context.select(family, Problem(64, N - 8, K), H200)
    assert (chosen.source, chosen.why) == ("neighbour", f"tuned for n of {N}, the nearest")
    assert here.context.select(family, Problem(48, N, K), H200).source == "model"
    header = tuned_files.read(here.path).header
    entries = [Entry(Problem(m, n, K), Tactic("small"), 1e-5) for m in (64, 32) for n in (N, 512)]
    for extent, expected in (("n", [(32, 512), (32, N), (64, 512), (64, N)]),
                           ("m", [(32, 512), (64, 512), (32, N), (64, N)])):  # fmt: skip
        tuned_writing.update(here.path, header, altered(FAMILY, neighbour=extent), entries)
        (section,) = tuned_files.read(here.path).sections
        assert [(row["m"], row["n"]) for row in section.rows] == expected


@pytest.mark.parametrize("fields", [{"n": 2048}, {"k": 2048}, {"batch": 2}, {"bias": False, "d": "f32"}])
def test_a_neighbour_is_of_one_n_k_batch_and_kind(place, fields: dict[str, Any]) -> None:
    here = place(*EVERY)
    here.tune(m64="small")
    assert here.choose(48).source == "neighbour"
    if "d" in fields:
        with pytest.raises(NoKernelError):
            here.choose(48, **fields)
    else:
        assert here.choose(48, **fields).source == "model"


def test_a_neighbour_that_has_not_seen_the_models_first_is_passed_over(
    place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known to be faster than what came after it; what it has seen, it was measured against."""
    monkeypatch.setattr(selection, "NEIGHBOUR_WITHIN", 100.0)
    here = place(*EVERY)
    first = here.choose(48).tactic.kernel
    second = next(name for name in EVERY if name != first)
    header = Header.of(H200, here.context.registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")
    for seen, source in ((EVERY, "neighbour"), ([name for name in EVERY if name != first], "model")):
        here.path.unlink(missing_ok=True)
        entry = Entry(Problem(64, N, K), Tactic(second), 1e-5, frozenset(seen))
        tuned_writing.update(here.path, header, FAMILY, [entry])
        here.context.forget_tuned()
        assert here.choose(48).source == source


@pytest.mark.parametrize(
    ("small_there", "big_there", "source"),
    [
        (1.5, 1.0, "neighbour"),  # the model has it as far behind on both sides: it errs, as was measured
        (3.0, 2.0, "neighbour"),  # and both gain as much
        (1.48, 1.0, "neighbour"),
        (1.44, 1.0, "model"),  # it loses on the way: its tiles are less full, or its waves
        (1.5, 1.06, "model"),  # the model's first gains
        (1.5, 0.5, "neighbour"),
    ],
)
def test_a_neighbour_must_not_lose_against_the_models_first_on_the_way(
    place, small_there: float, big_there: float, source: str
) -> None:
    """Where tiles are quantised alike, the two stand to each other as they do at the neighbour."""
    here = place(*EVERY)
    here.tune(m64="small")
    seconds = {"big": 1e-3, "medium": 2e-3, "split": 2e-3, "small": 1.5e-3}
    family = estimating(seconds, small=1e-3 * small_there, big=1e-3 * big_there)
    chosen = here.context.select(family, Problem(48, N, K), H200)
    assert chosen[2:3] == (source,)
    assert chosen.tactic.kernel == ("small" if source == "neighbour" else "big")


def test_without_jit_a_neighbour_is_judged_by_the_first_built(place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's first is far ahead of the neighbour's kernel, and cannot run."""
    seconds = {"big": 1e-3, "medium": 2e-3, "split": 2e-3, "small": 1.5e-3}
    here = place("medium", "small", "split")
    here.tune(m64="small")
    family = estimating(seconds, small=1.0e-3, medium=1.0e-3)
    problem = Problem(48, N, K)
    assert here.context.select(family, problem, H200).source == "model"
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    chosen = here.context.select(family, problem, H200)
    assert (chosen.source, chosen.tactic.kernel) == ("neighbour", "small")


def test_a_tile_that_only_just_holds_the_neighbour_is_no_neighbour_below(place) -> None:
    """By the model itself: what fits 128 rows exactly leaves half of its tile empty for 65."""
    here = place(*EVERY)
    here.tune(m128="medium")
    assert here.choose(128).source == "tuned"
    assert here.choose(65).source == "model"


def test_an_exact_entry_goes_before_its_neighbours(place) -> None:
    here = place(*EVERY)
    here.tune(m48="small", m64="small@swizzle=2", m40="small@swizzle=4")
    chosen = here.choose(48)
    assert (chosen.source, str(chosen.tactic)) == ("tuned", "small")


def test_a_neighbour_must_be_legal(
    tmp_path: Path, table, row, built, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert context.select(FAMILY, replace(problem, m=96), H200).source == "neighbour"
    chosen = context.select(FAMILY, replace(problem, m=48), H200)
    assert (chosen.source, chosen.tactic.kernel) == ("model", "narrow")
