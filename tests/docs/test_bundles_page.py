"""The commands of docs/bundles.md that compile nothing are run, and its list of problems is the example."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from tilewright.models.configuration import MODEL_TYPES
from tilewright_generator import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/bundles.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^tilewright bundle .*$", PAGE, re.MULTILINE)
QUICK = [line for line in COMMANDS if "--dry-run" in line or "--no-build" in line]


@pytest.mark.parametrize("line", QUICK)
def test_commands_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    _, *words = shlex.split(line)
    if "-o" in words:
        words[words.index("-o") + 1] = str(tmp_path / "bundle")
        words += ["-j", "1"]
    assert cli.invoke(words) == 0
    assert " us" in capsys.readouterr().out


def test_there_are_such_commands() -> None:
    assert len(QUICK) == 3


def test_the_list_is_the_example() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    example = (ROOT / "examples/bundles/problems.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(block) == yaml.safe_load(example)


def test_every_model_type_is_on_the_page() -> None:
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert not [name for name in MODEL_TYPES if name.removesuffix("_text") not in named]
