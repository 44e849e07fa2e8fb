"""A project with a family of its own, as `tilewright new-family` writes it, outside of the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tilewright_generator import scaffold

ROOT = Path(__file__).resolve().parents[2]
NAME = "relu_rows"


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class FamilyProject:
    """The project of a family called NAME; it is on sys.path, as if it were installed."""

    def __init__(self, root: Path, cache: Path | None = None) -> None:
        self.root = root
        self.cache = cache or root / "cache"
        self.folder = root / "tilewright_families" / NAME
        scaffold.write(NAME, root)

    def change(self, name: str, old: str, new: str) -> int:
        """Changes a file of the family; the number of the changed line."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1
        path.write_text(text.replace(old, new), encoding="utf-8")
        return text[: text.index(old)].count("\n") + 1

    def run(self, *command: str, **more: str) -> Answer:
        """`python COMMAND` in the project; `more`: of its environment."""
        inherited = filter(None, [os.environ.get("PYTHONPATH")])
        places = [self.root, ROOT / "generator", ROOT / "runtime", *inherited]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "TILEWRIGHT_CACHE": str(self.cache),
            "TILEWRIGHT_TUNED": "",
            **more,
        }
        environment.pop("TILEWRIGHT_DEBUG", None)
        done = subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def tilewright(self, *words: str) -> Answer:
        return self.run("-m", "tilewright_generator", *words)
