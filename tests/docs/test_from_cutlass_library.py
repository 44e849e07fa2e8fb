"""docs/from_cutlass_library.md: its spec makes the kernels that the page names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/from_cutlass_library.md").read_text(encoding="utf-8")


def block(first_line: str) -> str:
    (code,) = re.findall(rf"^```{re.escape(first_line)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(code)


def test_the_spec_makes_the_kernels(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/mine.yaml").write_text(block('yaml title="specs/mine.yaml"'), encoding="utf-8")
    words = block('sh title="list"').split()
    assert words[0] == "tilewright"
    done = subprocess.run(
        [sys.executable, "-m", "tilewright_generator", *words[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = re.findall(r"^ +----- (\w+)$", done.stdout, re.MULTILINE)
    assert listed == block("text").split()
    (tactic,) = re.findall(r'tactic="(\w+)"', PAGE)
    assert tactic in listed
