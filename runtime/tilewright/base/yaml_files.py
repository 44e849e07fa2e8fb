"""Reads YAML files of people: lists of sizes. Specs have a reader of their own, which keeps positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tilewright.base.reading import MOST_DEPTH, MOST_YAML_BYTES, contents, decoded
from tilewright.errors import UnreadableFileError

MOST_YAML_EVENTS = 500_000  # parser events of a YAML file; each takes 1 KB and 10 us in PyYAML


def load_yaml(path: Path) -> Any:
    """The values of a YAML file, as YAML's safe types. Tags are refused, and also aliases, which can expand
    to far more than is written. Raises as `load_json`."""
    text = decoded(path, contents(path, MOST_YAML_BYTES))
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        depth = 0
        for number, event in enumerate(yaml.parse(text, Loader=loader)):
            reason = ""
            if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
                reason = "an alias or a tag, which it may not hold"
            elif number > MOST_YAML_EVENTS:
                reason = f"more than {MOST_YAML_EVENTS:,} values and brackets"
            elif isinstance(event, yaml.CollectionStartEvent):
                # libyaml's composer calls itself for each level, and ends the process at some 30,000.
                depth += 1
                reason = f"nested more than {MOST_DEPTH} deep" if depth > MOST_DEPTH else ""
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if reason:
                raise UnreadableFileError(path, f"{_place(event.start_mark)}{reason}")
        return yaml.load(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise UnreadableFileError(path, f"{_place(error.problem_mark)}not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # a date, a number of thousands of digits
        raise UnreadableFileError(path, f"not YAML that tilewright reads: {error}") from None


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
