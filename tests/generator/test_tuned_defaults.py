"""What becomes of tuned defaults when kernels come and go, and what `generate` and `check` say of it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import readme_line
from command_line import Result, run_in_a_process
from readme_line import KERNEL as NEW

from tilewright.architectures import device
from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright_generator.cli.tuned_defaults import Defaults

ROOT = Path(__file__).parents[2]
PROBLEM = Problem(32, 5120, 25600)

Command = Callable[..., Result]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of sm90_gemm_lean in a project of its own."""
    (tmp_path / "specs").mkdir()
    shutil.copy(ROOT / "specs" / "sm90_gemm_lean.yaml", tmp_path / "specs")
    shutil.copytree(ROOT / "generated" / "sm90_gemm_lean", tmp_path / "generated" / "sm90_gemm_lean")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_TUNED", "")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(device, "driver", lambda: "580.159.04")
    readme_line.remove(tmp_path, lambda: run_in_a_process("generate", "--root", tmp_path))
    return tmp_path


@pytest.fixture
def tuned(there: Path) -> Entry:
    """The project's one default: a kernel that splits k, and that the model would not take."""
    registry = Registry(there / "generated")
    records = registry.route("gemm", H200)
    of_kind = frozenset(record.name for record in FAMILY.of_kind(registry, records, PROBLEM.kind))
    ranked = [candidate.tactic for candidate in FAMILY.rank(records, PROBLEM, H200)]
    tactic = next(tactic for tactic in ranked[1:] if tactic.splits > 1)
    entry = Entry(PROBLEM, tactic, 1e-5, of_kind)
    header = Header.of(H200, registry, "gemm")
    tuned_writing.update(paths.tuned_file(there / "tuned", H200.name, "gemm"), header, FAMILY, [entry])
    return entry


def chosen(there: Path) -> tuple[str, Tactic]:
    choice = Context(Registry(there / "generated")).select(FAMILY, PROBLEM, H200)
    return choice.source, choice.tactic


def test_where_all_is_seen_nothing_is_said(tilewright: Command, tuned: Entry) -> None:
    assert "tune" not in tilewright("generate").out
    actual = tilewright("check")
    assert (actual.code, "tune" in actual.out) == (0, False)


def test_adding_a_tile_keeps_what_is_tuned_and_says_what_has_not_seen_it(
    tilewright: Command, there: Path, tuned: Entry
) -> None:
    assert chosen(there) == ("tuned", tuned.tactic)
    readme_line.add(there)
    lines = [
        "tuned/nvidia_h200/gemm.json: 1 problem tuned without 1 kernel:",
        f"  {NEW}",
        "tune new kernels beside what is tuned with:",
        "  tilewright tune --only-new --family gemm --out tuned",
    ]
    assert not set(lines) & set(tilewright("generate", "--dry-run").out.splitlines())
    assert tilewright("generate").out.splitlines()[-4:] == lines
    assert chosen(there) == ("tuned", tuned.tactic)
    assert "tuned" not in tilewright("generate").out, "nothing was added"
    actual = tilewright("check")
    assert (actual.code, actual.out.splitlines()[1:]) == (0, []), "it is no fault, and nobody tunes here"
    note = f"{lines[0].rstrip(':')}; `tilewright tune --only-new` tries them"
    assert tilewright("check", "-v").out.splitlines()[1:] == [note]
    (said,) = json.loads(tilewright("check", "--json").out)["tuned"]
    assert said["unseen"] == [{"kernels": [NEW], "problems": 1}]
    assert said["lost"] == []


def test_of_many_kernels_the_one_that_most_problems_have_not_seen_is_named() -> None:
    unseen = Counter({("old", "older"): 2, ("old", "new"): 3, ("new",): 1})
    lines = list(Defaults(Path("tuned/gpu/gemm.json"), "gemm", unseen, ()).lines())
    assert lines[0].endswith("gemm.json: 6 problems tuned without some of 3 kernels:")
    assert lines[1] == "  old ..."
    # Of what was just added alone:
    lines = list(Defaults(Path("tuned/gpu/gemm.json"), "gemm", unseen, ()).of({"new", "other"}).lines())
    assert lines[0].endswith("gemm.json: 4 problems tuned without 1 kernel:")
    assert lines[1] == "  new"


def test_an_entry_whose_kernel_is_gone_is_said(tilewright: Command, there: Path, tuned: Entry) -> None:
    path = paths.tuned_file(there / "tuned", H200.name, "gemm")
    gone = str(tuned.tactic).replace("_sm90_", "_sm89_")
    path.write_text(path.read_text().replace(f'"tactic": "{tuned.tactic}"', f'"tactic": "{gone}"'))
    said = f"tuned/nvidia_h200/gemm.json: 1 problem lacks its kernel:\n  {gone}\n    (no such kernel)\n"
    assert said in tilewright("generate").out
    assert said in tilewright("check").out
    assert chosen(there)[0] == "model"


def test_a_damaged_default_is_passed_over(tilewright: Command, there: Path, tuned: Entry) -> None:
    path = paths.tuned_file(there / "tuned", H200.name, "gemm")
    path.write_text(path.read_text()[:-9])
    assert tilewright("check").code == 0
