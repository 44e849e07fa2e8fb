"""TILEWRIGHT_LOG, in processes of their own: what it sets up is the process's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base import paths

TALK = """
import logging, sys
import tilewright
assert "torch" not in sys.modules
log = logging.getLogger("tilewright")
log.debug("of debug"); log.info("of info"); log.warning("of warning"); log.error("of error")
assert not logging.getLogger().handlers
print(len(log.handlers))
"""


def talk(value: str | None, code: str = TALK) -> tuple[str, list[str]]:
    """What a program prints, and the last words of what it logs to stderr."""
    environment = {**os.environ, "PYTHONPATH": str(paths.include_dir().parent)}
    environment.pop("TILEWRIGHT_LOG", None)
    if value is not None:
        environment["TILEWRIGHT_LOG"] = value
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr.splitlines()


def test_without_the_variable_nothing_is_set_up_and_warnings_are_seen() -> None:
    for value in (None, ""):
        assert talk(value) == ("0", ["of warning", "of error"])
    _, modules = talk(
        None, "import sys, tilewright; print('tilewright.base.logs' in sys.modules, file=sys.stderr)"
    )
    assert modules == ["False"]


@pytest.mark.parametrize(
    ("level", "said"),
    [("debug", 4), ("info", 3), ("WARNING", 2), ("error", 1)],
)
def test_a_level(level: str, said: int) -> None:
    handlers, lines = talk(level)
    assert handlers == "1"
    assert [line.rpartition(": ")[2] for line in lines] == ["of debug", "of info", "of warning", "of error"][
        -said:
    ]
    assert "tilewright[" in lines[0]
    assert lines[-1].endswith(" ERROR: of error")


def test_a_file_that_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "a:b.log"
    for lines in (3, 6):
        assert talk(f"info:{path}") == ("1", [])
        assert len(path.read_text().splitlines()) == lines


def test_a_wrong_value_stops_nothing(tmp_path: Path) -> None:
    handlers, lines = talk("loud")
    assert handlers == "0"
    assert (
        lines[0]
        == "TILEWRIGHT_LOG=loud: the level must be one of debug, info, warning, error; no log is kept"
    )
    handlers, lines = talk(f"error:{tmp_path}")
    assert handlers == "1"
    assert lines[0] == f"TILEWRIGHT_LOG=error:{tmp_path}: Is a directory; the log goes to stderr"


def test_an_application_that_configures_logging_itself() -> None:
    code = "import logging; logging.basicConfig(level='INFO', format='mine %(message)s')\n" + TALK
    handlers, lines = talk(None, code.replace("assert not logging.getLogger().handlers", ""))
    assert (handlers, lines) == ("0", ["mine of info", "mine of warning", "mine of error"])
