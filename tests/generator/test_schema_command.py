"""`tilewright schema`: the schemas of specs for editors."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml
from command_line import ROOT, Command
from small_spec import SPEC

from tilewright_generator import families, schema


def test_schema_writes_checks_and_prints(project: Path, tilewright: Command) -> None:
    assert tilewright("schema", "tiny", "--check").code == 1
    path = project / "specs/schema/tiny.schema.json"
    assert f"wrote {path}" in tilewright("schema", "tiny").out
    assert tilewright("schema", "tiny").out == "nothing to do: 1 schema is as it should be\n"
    assert tilewright("schema", "tiny", "--check").code == 0
    assert tilewright("schema", "tiny", "--print").out == path.read_text()
    assert tilewright("schema", "tiny", "--print", "--check").code == 2
    path.write_text("{}")
    assert tilewright("schema", "tiny", "--check").code == 1


def valid(name: str, text: str) -> bool:
    validator = jsonschema.Draft7Validator(schema.spec_schema(families.get(name)))
    return validator.is_valid(yaml.safe_load(text))


def test_the_schema_takes_what_the_generator_takes_and_refuses_slips() -> None:
    for each in families.names():
        jsonschema.Draft7Validator.check_schema(schema.spec_schema(families.get(each)))
    assert valid("tiny", SPEC)
    assert not valid("tiny", SPEC.replace("tile:", "tiel:"))
    assert not valid("tiny", SPEC.replace("bf16", "bf61"))
    assert not valid("tiny", SPEC.replace("256x64x64", "256x64"))
    assert not valid("tiny", SPEC.replace(", reason: nobody asks for it", ""))
    assert not valid("tiny", SPEC.replace("family: tiny", "family: other"))


@pytest.mark.parametrize("path", sorted((ROOT / "specs").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_committed_specs_meet_their_schema(path: Path) -> None:
    text = path.read_text()
    assert valid(yaml.safe_load(text)["family"], text)
