from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest
import tiny_family
from command_line import ROOT

from tilewright.base.spelling import text
from tilewright_generator import cli, families
from tilewright_generator.errors import InternalError, UsageError
from tilewright_generator.fields import fields_of


def test_packaged_families_and_registered_ones_are_known_by_name() -> None:
    assert {"gemm", "tiny"} <= set(families.names())
    assert families.get("tiny") is tiny_family.FAMILY
    assert families.get("gemm").name == "gemm"


def test_an_unknown_family_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"no family 'gem' .*; did you mean 'gemm'"):
        families.get("gem")


def test_a_family_beside_the_specs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds it only if the project is installed, or on its path."""
    project = tmp_path / "my kernels"
    (package := project / "tilewright_families/row_scale").mkdir(parents=True)
    (project / "specs").mkdir()
    monkeypatch.chdir(project / "specs")
    with pytest.raises(UsageError, match=f"{package} has no __init__.py"):
        families.get("row_scale")
    (package / "__init__.py").touch()
    with pytest.raises(
        UsageError, match=f"row_scale is in {project}, which is not on .* PYTHONPATH='{project}'"
    ):
        families.get("row_scale")
    with pytest.raises(UsageError) as caught:
        families.get("col_scale")
    assert "PYTHONPATH" not in str(caught.value)


def test_a_name_cannot_be_registered_twice() -> None:
    other = type(tiny_family.FAMILY)(
        **{name: getattr(tiny_family.FAMILY, name) for name in tiny_family.FAMILY.__slots__} | {"rules": ()}
    )
    with pytest.raises(InternalError, match="'tiny' is registered twice"):
        families.register(other)


@pytest.mark.parametrize("name", families.names())
def test_a_family_keeps_its_contract(name: str) -> None:
    """Its name is its own, its fields are described, its rules state themselves, its defaults are valid."""
    family = families.get(name)
    assert family.name == name
    for rule in family.rules:
        assert rule.statement, rule.name
        assert re.fullmatch(r"the hardware's|ours|CUTLASS 4\.[258]'s", rule.limit.whose), rule.name
        assert rule.fields, rule.name
        assert set(rule.fields) <= fields_of(family).keys(), rule.name
        assert name == "tiny" or rule.basis, rule.name
    assert len({rule.name for rule in family.rules}) == len(family.rules)
    for field in fields_of(family).values():
        assert field.description, field.name
        if not field.required:
            assert field.parse_text(text(field.default)) == field.default


def test_every_command_of_the_help_is_there() -> None:
    for name in cli.COMMANDS:
        module = import_module(f"tilewright_generator.cli.{cli.module_of(name)}")
        assert isinstance(module.command, click.Command)


def test_listing_families_and_commands_imports_no_family() -> None:
    code = (
        "import sys; from tilewright_generator import cli; cli.invoke(['--help']); "
        "heavy = {'jinja2', 'yaml', 'torch'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_the_docs_say_of_every_rule_whose_limit_it_is() -> None:
    lines = (ROOT / "docs/specs.md").read_text(encoding="utf-8").splitlines()
    head = lines.index("| family | limit | rules |")
    told, family = set(), ""
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            break
        of, whose, rules = (cell.strip(" `") for cell in line[1:-1].split("|"))
        family = of or family
        told |= {(family, name, whose) for name in re.findall(r"\w+", rules)}
    packaged = [families.get(name) for name in families.names() if name != "tiny"]
    assert told == {(each.name, rule.name, rule.limit.whose) for each in packaged for rule in each.rules}
