"""Applies small faults to the code, one at a time, and sees whether the tests that should notice do.

    python tests/mutants/mutation.py [--only TEXT] [--lacking] [--write]

mutants.yaml lists them: a file, a text that stands in it once, what replaces it, and the tests that must then
fail. Each is applied to a private copy of the tree, in which those tests run until the first one fails. First
all of them run without a fault, and must pass. `--only` takes the mutants whose name or file holds TEXT;
`--write` writes what became of them to results.json, beside what it says of others. Exits with 1 where one
survives.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST = HERE / "mutants.yaml"
RESULTS = HERE / "results.json"
_SECONDS = 600  # for the tests of one mutant; one that hangs is as good as one that fails
_FAILED = (1, 2)  # pytest's exit codes: a test fails, a module does not import


@dataclass(frozen=True)
class Mutant:
    """One fault."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """What a result belongs to: the fault, wherever its file and its tests lie."""
        return hashlib.sha256(json.dumps([self.name, self.old, self.new]).encode()).hexdigest()[:16]

    def apply(self, root: Path) -> str:
        """Puts the fault into the tree, and answers the file's text before. Raises ValueError where its text
        does not stand there once."""
        path = root / self.file
        before = path.read_text(encoding="utf-8")
        times = before.count(self.old)
        if times != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {times} times in {self.file}")
        path.write_text(before.replace(self.old, self.new), encoding="utf-8")
        return before


def mutants() -> list[Mutant]:
    """All of the list."""
    return list(_read(yaml.safe_load(LIST.read_text(encoding="utf-8"))))


def _read(groups: list[dict[str, Any]]) -> Iterator[Mutant]:
    """A group is of a file, and says which tests notice where a mutant does not say it itself."""
    for group in groups:
        for mutant in group["mutants"]:
            tests = mutant.get("tests", group["tests"])
            yield Mutant(mutant["name"], group["file"], mutant["old"], mutant["new"], tuple(tests))


def copy(target: Path) -> None:
    """Makes a clone of the repository in `target`, whose files are those of the tree as it stands: what git
    tracks, and what it would. Some tests ask git for files and for earlier revisions."""
    for command in (
        ["clone", "--shared", "--no-checkout", str(ROOT), str(target)],
        ["-C", str(target), "reset"],
    ):
        subprocess.run(["git", *command], capture_output=True, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def run(root: Path, tests: Sequence[str]) -> str | None:
    """The first test that failed; None where all pass. Raises ValueError where there are no such tests."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "generator"), str(root / "runtime")]),
        "PYTHONDONTWRITEBYTECODE": "1",  # a mutant may be as long as what it replaces, and as old
    }
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "none ended in time"
    if done.returncode == 0:
        return None
    if done.returncode < 0:  # what a fault reads or writes beyond its tensors may end the process
        return f"signal {-done.returncode} ended pytest"
    if done.returncode not in _FAILED:
        raise ValueError(f"pytest exits {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    first = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return first[1] if first else "pytest, before any test"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--lacking", action="store_true", help="Those not known to be killed.")
    parser.add_argument("--write", action="store_true", help="Write results.json.")
    options = parser.parse_args()
    chosen = [mutant for mutant in mutants() if options.only in mutant.name or options.only in mutant.file]
    if options.lacking:
        recorded = results_of(chosen)
        chosen = [mutant for mutant in chosen if not recorded.get(mutant.name, {}).get("killed")]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        copy(root)
        failed = run(root, sorted({test for mutant in chosen for test in mutant.tests}))
        if failed is not None:
            raise SystemExit(f"without a mutant, {failed} fails")
        for mutant in chosen:
            before = mutant.apply(root)
            failed = run(root, mutant.tests)
            (root / mutant.file).write_text(before, encoding="utf-8")
            results[mutant.name] = {"digest": mutant.digest, "killed": failed is not None, "by": failed}
            print(f"{failed or 'SURVIVES'}: {mutant.name} ({mutant.file})", flush=True)
            if options.write:
                _write(results)
    killed = sum(result["killed"] for result in results.values())
    print(f"{killed} of {len(results)} killed")
    return 0 if killed == len(results) else 1


def results_of(listed: Sequence[Mutant]) -> dict[str, dict[str, Any]]:
    """What results.json says of mutants as they are listed."""
    recorded: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return {
        mutant.name: recorded[mutant.name]
        for mutant in listed
        if recorded.get(mutant.name, {}).get("digest") == mutant.digest
    }


def _write(results: dict[str, dict[str, Any]]) -> None:
    """Beside the results of others, in the order of the list."""
    recorded, listed = results_of(mutants()) | results, [mutant.name for mutant in mutants()]
    lines = ",\n".join(
        f" {json.dumps(name)}: {json.dumps(recorded[name])}" for name in listed if name in recorded
    )
    RESULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
