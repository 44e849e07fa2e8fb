"""A family from outside that is wrong: what commands say names its file, and what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from family_project import NAME, ROOT, FamilyProject

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError


@pytest.fixture
def family(tmp_path: Path) -> FamilyProject:
    return FamilyProject(tmp_path)


SHOWS = "TILEWRIGHT_DEBUG=1 shows the traceback"


def test_a_family_without_a_summary(family: FamilyProject) -> None:
    family.change("kernel.py", "def summary(", "def summery(")
    answer = family.tilewright("generate")
    blame = f"{family.folder}/kernel.py makes it so; {SHOWS}"
    assert answer == (2, "", f"Error: the family '{NAME}' has no function summary\n{blame}\n")


def test_a_syntax_error(family: FamilyProject) -> None:
    line = family.change("problem.py", "    m: int\n", "    m int\n")
    answer = family.tilewright("explain", "--problem", NAME, "bf16", "m=64", "n=256")
    assert answer.code == 2
    assert answer.err.startswith(f"Error: {family.folder}/problem.py:{line}: SyntaxError: ")
    assert answer.err.endswith(f"\n{SHOWS}\n")


def test_an_error_of_a_function_that_generates(family: FamilyProject) -> None:
    line = family.change("memory.py", "// 32) * 4", "// 32) / 0")
    answer = family.tilewright("check")
    place = f"{family.folder}/memory.py:{line}"
    assert answer == (2, "", f"Error: {place}: ZeroDivisionError: division by zero\n{SHOWS}\n")


def test_a_name_that_is_no_identifier(family: FamilyProject) -> None:
    family.change(
        "kernel.py", f'return named("{NAME}", config.arch,', 'return named("relu-rows", config.arch,'
    )
    answer = family.tilewright("check")
    assert answer.code == 2
    assert f"{NAME} makes the name 'relu-rows_sm90_bf16_4x32': not a C identifier" in answer.err
    assert answer.err.splitlines()[-1] == f"{family.folder}/kernel.py makes it so; {SHOWS}"


def test_a_rule_that_fails(family: FamilyProject) -> None:
    line = family.change("rules.py", "threads = config.rows *", "threads = config.raws *")
    answer = family.tilewright("check")
    assert answer.code == 2
    assert "'Config' object has no attribute 'raws'" in answer.err
    assert answer.err.splitlines()[-1] == f"{family.folder}/rules.py:{line} makes it so; {SHOWS}"


def test_a_rule_that_returns_a_boolean(family: FamilyProject) -> None:
    family.change("rules.py", " if threads > 1024 else None", " if threads > 1024 else False")
    answer = family.tilewright("check")
    assert answer.code == 2
    first, last = answer.err.splitlines()
    assert first.startswith(f"Error: the rule threads_of_a_block of {NAME} fails on Config(arch='sm_90a', ")
    assert "it returned False; expected None or the reason as text" in first
    text = (family.folder / "rules.py").read_text(encoding="utf-8")
    line = text[: text.index("@rule(")].count("\n") + 1
    assert last == f"{family.folder}/rules.py:{line} makes it so; {SHOWS}"


def test_a_rule_that_names_a_field_that_no_configuration_has(family: FamilyProject) -> None:
    family.change("rules.py", '"threads rows"', '"thread rows"')
    message = "the rule threads_of_a_block names 'thread', which is no field of CONFIG"
    blame = f"{family.folder}/rules.py makes it so; {SHOWS}"
    expected = f"Error: {message}; did you mean 'threads'?\n{blame}\n"
    assert family.tilewright("check") == (2, "", expected)


def test_a_fault_of_a_template(family: FamilyProject) -> None:
    name = f"templates/{NAME}/kernel.cu.j2"
    line = family.change(name, "{{ rows }}", "{{ raws }}")
    answer = family.tilewright("check")
    assert answer.code == 2
    assert answer.err.startswith(
        f"Error: {family.folder}/{name}:{line}: 'raws' is undefined (for {NAME}_sm90"
    )


def test_a_template_that_has_changed(family: FamilyProject) -> None:
    """The family's author has changed it, and not another release of tilewright."""
    assert family.tilewright("generate").code == 0
    name = f"tilewright_families/{NAME}/templates/{NAME}/kernel.cu.j2"
    with (family.root / name).open("a", encoding="utf-8") as template:
        template.write("// another\n")
    answer = family.tilewright("check")
    assert answer.code == 1
    assert f"{NAME}: {name} has changed since the files were made from it\n" in answer.err
    assert "another version" not in answer.err


def test_a_template_that_is_not_there(family: FamilyProject) -> None:
    (family.folder / f"templates/{NAME}/kernel.cu.j2").unlink()
    answer = family.tilewright("check")
    assert answer.code == 2
    first, last = answer.err.splitlines()
    folders = f"{family.root}/templates, {ROOT}/templates, {family.folder}/templates"
    assert first == f"Error: no template {NAME}/kernel.cu.j2 in any of {folders}"
    assert last == f"{family.folder}/kernel.py makes it so; {SHOWS}"


def test_an_extent_that_its_problem_has_not(family: FamilyProject) -> None:
    family.change(
        "interface.py",
        'Matrix("out", "[m, n], n contiguous", rows="m", columns="n",',
        'Matrix("out", "[m, n], n contiguous", rows="m", columns="q",',
    )
    header = family.folder / f"include/tilewright/{NAME}/args.h"
    header.unlink()
    answer = family.run("-m", "tilewright.declarations.headers")
    message = "ValueError: out: columns is 'q', which is no extent of the problem; there are: m, n"
    assert (answer.code, answer.err.splitlines()[-1]) == (1, message)
    assert not header.exists()


def test_a_type_of_another_library(family: FamilyProject) -> None:
    family.change(
        "interface.py", 'columns="n", type="type", alignment=1, written', 'columns="n", type="fp8", written'
    )
    answer = family.run("-m", "tilewright.declarations.headers")
    assert answer.code == 1
    message = "out: type is 'fp8', which is no type and no field of the problem; did you mean 'e4m3'?"
    assert answer.err.splitlines()[-1] == f"ValueError: {message}"


@pytest.mark.parametrize("command", ["generate", "check"])
def test_facts_that_the_row_does_not_declare(family: FamilyProject, command: str) -> None:
    """Found where they are made: no build asks to generate again what would be generated the same."""
    line = family.change("kernel.py", '"smem_bytes": shared_bytes(config)}', '"bytes": shared_bytes(config)}')
    answer = family.tilewright(command)
    assert answer.code == 2
    first, last = answer.err.splitlines()
    assert first.startswith(f"Error: {family.folder}/kernel.py:{line - 2}: {NAME}_sm90_bf16")
    assert "facts: there is no 'smem_bytes'" in first
    assert last == f"{family.folder}/config.py declares what facts hold (FACTS): make the two agree"
    assert not (family.root / "generated" / NAME).exists()


def test_a_row_that_has_changed_since_the_table_was_made(family: FamilyProject) -> None:
    """`build` reads the table alone, and sends to the command that tells which of both is at fault."""
    _needs_toolchain()
    assert family.tilewright("generate").code == 0
    family.change("config.py", "    smem_bytes: SharedBytes", "    shared: SharedBytes")
    built = family.tilewright("build")
    assert built.code == 2
    assert "facts: there is no 'shared'" in built.err
    assert "`tilewright check` says whether the table or the family that made it is at fault." in built.err
    checked = family.tilewright("check")
    assert f"{family.folder}/config.py declares what facts hold" in checked.err


def test_a_header_that_nobody_has_written(family: FamilyProject) -> None:
    _needs_toolchain()
    assert family.tilewright("generate").code == 0
    header = family.folder / f"include/tilewright/{NAME}/args.h"
    header.unlink()
    answer = family.tilewright("build", "--dry-run")
    assert answer.code == 1
    assert f"Error: {header}: No such file or directory\n" in answer.err
    advice = f"`python -m tilewright.declarations.headers` writes it from the declaration of {NAME}."
    assert advice in answer.err


def _needs_toolchain() -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
