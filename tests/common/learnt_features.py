"""What tests of learnt trees have in common: features that were written down, and trees that know them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isclose
from pathlib import Path

import pytest

from tilewright.errors import UnreadableFileError
from tilewright.selection.corrections import Corrections

Asked = Mapping[str, Sequence[float]]
"""The features of a tactic on a problem, by the names of both."""


def write(file: Path, asked: Asked) -> None:
    file.write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")


def differing(file: Path, asked: Asked, name: str) -> list[int]:
    """The places of features that are others than those that were written down."""
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written.keys() == asked.keys()
    pairs = zip(asked[name], written[name], strict=True)
    return [place for place, pair in enumerate(pairs) if not isclose(*pair, rel_tol=1e-9, abs_tol=1e-12)]


def all_differ(asked: Asked) -> bool:
    """Whether no two features are always equal."""
    columns = list(zip(*asked.values(), strict=True))
    return len(set(columns)) == len(columns)


def check_names(learnt: Corrections, names: tuple[str, ...]) -> None:
    """Trees were learnt from features of these names in this order, and refuse all others."""
    learnt.trees(names)
    for wrong in (names[::-1], names[1:], (*names, "more")):
        with pytest.raises(UnreadableFileError, match="learnt from other features"):
            learnt.trees(wrong)
