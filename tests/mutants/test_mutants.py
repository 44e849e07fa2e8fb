"""The list of mutants is of the code as it stands, and nearly all of them were killed."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import mutation
import pytest

LEAST, SHARE = 100, 0.95


def test_every_mutant_applies_once() -> None:
    """One whose text is gone is to be written anew, with its result."""
    lost = []
    for mutant in mutation.mutants():
        text = (mutation.ROOT / mutant.file).read_text(encoding="utf-8")
        if text.count(mutant.old) != 1 or mutant.old == mutant.new:
            lost.append(f"{mutant.name}: its text stands {text.count(mutant.old)} times in {mutant.file}")
    assert not lost, "\n".join(lost)


def test_names_are_unique_and_tests_exist() -> None:
    listed = mutation.mutants()
    assert max(Counter(mutant.name for mutant in listed).values()) == 1
    tests = {test for mutant in listed for test in mutant.tests}
    for test in tests:
        path, _, name = test.partition("::")
        text = (mutation.ROOT / path).read_text(encoding="utf-8")
        if "from tilewright.contract.suite import *" in text:  # whose tests run here
            text += "".join(map(Path.read_text, (mutation.ROOT / "runtime/tilewright/contract").glob("*.py")))
        assert not name or re.search(rf"\b(def|class) {name.partition('[')[0]}[(:]", text), test


def test_the_results_are_of_the_list_and_nearly_all_were_killed() -> None:
    """`python tests/mutants/mutation.py --lacking --write` runs those that lack one."""
    listed = mutation.mutants()
    results = mutation.results_of(listed)
    assert [mutant.name for mutant in listed if mutant.name not in results] == []
    assert set(json.loads(mutation.RESULTS.read_text(encoding="utf-8"))) == set(results)
    killed = sum(each["killed"] for each in results.values())
    assert len(listed) >= LEAST
    assert killed >= SHARE * len(listed)


def test_a_mutant_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("a = 1\nb = 1\n")
    with pytest.raises(ValueError, match="stands 2 times"):
        mutation.Mutant("twice", "x.py", "= 1", "= 2", ()).apply(tmp_path)
    before = mutation.Mutant("once", "x.py", "a = 1", "a = 2", ()).apply(tmp_path)
    assert before == "a = 1\nb = 1\n"
    assert (tmp_path / "x.py").read_text() == "a = 2\nb = 1\n"
