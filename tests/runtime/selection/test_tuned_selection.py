"""Selection with tuned entries: exact, of a neighbour, built or not; choices that are remembered."""

from __future__ import annotations

from pathlib import Path

import pytest
from altered import altered
from tuned_places import EVERY, K, N, Place, estimating

from tilewright.architectures.device import B200, H200
from tilewright.context import MAX_CHOICES
from tilewright.declarations.tactics import Tactic
from tilewright.errors import NoKernelError
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import choice as selection
from tilewright.selection.choice import Choice, choose
from tilewright.selection.tuned_files import Entry


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
    assert here.choose(3000).tactic.kernel == "medium"  # nor of a neighbour
    assert "TILEWRIGHT_JIT=0" in here.choose(3000).why
    assert here.choose(64).source == "tuned"
    assert here.choose(48).source == "neighbour"
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
    choice = here.choose(64)
    choices = here.context._choices
    for number in range(MAX_CHOICES):
        choices[number] = choice
    here.choose(128)
    assert len(choices) <= MAX_CHOICES
    assert here.choose(64) == choice


def test_rows_are_not_parsed_to_be_passed_over(tmp_path: Path, table, row) -> None:
    rows = [row("wanted"), *(row(f"other{i}", a="f16", b="f16", d="f16") for i in range(20))]
    path = table(tmp_path, "sm90_x", rows)
    whole, broken = '"tile": [128, 128, 64]', '"tile": [128, 128 64]'
    path.write_text(path.read_text().replace(whole, broken).replace(broken, whole, 1))  # all but the first
    registry = Registry(tmp_path, libraries=lambda module: [])
    records = registry.route("gemm", H200)
    assert len(records) == 21
    assert [record.name for record in FAMILY.of_kind(registry, records, Problem(8, 8, 8).kind)] == ["wanted"]
    assert registry.record("wanted") in records
    assert registry.record("wanted") in records[:1]
    assert registry.record("wanted")._replace(sha256="other") not in records
    assert "wanted" not in records
