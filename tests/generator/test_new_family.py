"""`tilewright new-family` writes a family that generates, checks, builds and keeps the contract as it is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Command, untracked
from family_project import NAME, ROOT, Answer, FamilyProject

from tilewright.base import plugins, writing
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError
from tilewright_generator import scaffold

KERNELS = [f"{NAME}_sm90_{type}_{shape}" for type in ("bf16", "f32") for shape in ("4x32", "1x128", "1x512")]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> FamilyProject:
    family = FamilyProject(tmp_path_factory.mktemp("new_family"))
    passes(family.tilewright("generate"))
    return family


def passes(answer: Answer) -> str:
    assert answer.code == 0, answer.out + answer.err
    return answer.out


def test_it_is_found_by_its_folder(family: FamilyProject) -> None:
    code = "from tilewright.declarations import catalog; print(*catalog.names())"
    assert NAME in passes(family.run("-c", code)).split()
    assert NAME not in plugins.families()


def test_its_header_follows_from_the_declaration(family: FamilyProject) -> None:
    header = family.folder / f"include/tilewright/{NAME}/args.h"
    passes(family.run("-m", "tilewright.declarations.headers", "--check"))
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert family.run("-m", "tilewright.declarations.headers", "--check").code == 1
    command = "python -m tilewright.declarations.headers"
    generated = family.tilewright("generate")
    assert generated.code == 0
    assert (
        f"{header.relative_to(family.root)}: its family declares other arguments; run: {command}\n"
        in generated.err
    )
    checked = family.tilewright("check")
    assert checked.code == 1
    assert f"{header.relative_to(family.root)}: the family declares other arguments" in checked.out
    assert f"mend 1 header with: {command}\n" in checked.err
    assert passes(family.run("-m", "tilewright.declarations.headers")) == f"wrote {header}\n"
    passes(family.tilewright("check"))
    assert header.read_text(encoding="utf-8") == scaffold.files(NAME)[str(header.relative_to(family.root))]


def test_it_is_generated_checked_and_listed(family: FamilyProject) -> None:
    table = json.loads((family.root / f"generated/{NAME}/table.json").read_text(encoding="utf-8"))
    assert sorted(row["name"] for row in table["kernels"]) == sorted(KERNELS)
    passes(family.tilewright("check"))
    listed = passes(family.tilewright("list"))
    assert all(name in listed for name in KERNELS)


def test_a_dry_run_names_the_files_and_writes_none(family: FamilyProject, tmp_path: Path) -> None:
    answer = family.tilewright("new-family", "soft_rows", "--into", str(tmp_path / "mine"), "--dry-run")
    named = [line.removeprefix("would write ") for line in passes(answer).splitlines()]
    assert sorted(named) == sorted(str(tmp_path / "mine" / path) for path in scaffold.files("soft_rows"))
    assert not (tmp_path / "mine").exists()


def test_its_fields_are_explained(family: FamilyProject) -> None:
    explained = " ".join(passes(family.tilewright("explain", NAME)).split())
    assert "threads 32..1024, multiples of 32 default 128 threads of a row" in explained


def test_its_rule_rejects_with_numbers(family: FamilyProject) -> None:
    explained = passes(family.tilewright("explain", NAME, "arch=sm_90a", "type=f32", "rows=4", "threads=512"))
    assert "4 rows of 512 threads are 2048 > 1024" in explained


def test_commands_know_its_words(family: FamilyProject) -> None:
    words = (NAME, "f32", "m=64", "n=4096")
    explained = passes(family.tilewright("explain", "--problem", *words, "--device", "h200"))
    assert f"would run {NAME}_sm90_f32_1x512" in explained
    assert "--dtype" in passes(family.tilewright("run", NAME, "--help"))


def test_nvcc_compiles_it(family: FamilyProject) -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    report = family.root / "report.json"
    passes(family.tilewright("build", "--strict", "--filter", "*_bf16_4x32", "--report", str(report)))
    (unit,) = json.loads(report.read_text(encoding="utf-8"))["kernels"]
    assert unit["name"] == f"{NAME}_sm90_bf16_4x32"


@pytest.mark.parametrize("way", ["g++", "cmake"])
def test_programs_in_cpp_find_its_header(family: FamilyProject, tmp_path: Path, way: str) -> None:
    if shutil.which(way) is None:
        pytest.skip(f"no {way}")
    program = f"tilewright_{NAME}_args args;\nint main() {{ return args.m; }}\n"
    (tmp_path / "main.cc").write_text(f'#include "tilewright/{NAME}/args.h"\n{program}', encoding="utf-8")
    lines = "find_package(tilewright CONFIG REQUIRED)\nadd_executable(main main.cc)\n"
    lines += "target_link_libraries(main tilewright::tilewright)\n"
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.20)\nproject(main CXX)\n{lines}", encoding="utf-8"
    )
    options = passes(family.tilewright("config", "--cflags" if way == "g++" else "--cmake")).split()
    if way == "g++":
        subprocess.run(["g++", *options, "-c", "main.cc"], cwd=tmp_path, check=True)
    else:
        subprocess.run(["cmake", "-S.", "-Bbuild", *options], cwd=tmp_path, check=True)
        subprocess.run(["cmake", "--build", "build"], cwd=tmp_path, check=True)
    includes = passes(family.tilewright("config", "--includes")).split()
    assert f"-I{family.folder}/include" in includes
    kernel = passes(family.tilewright("config", "--nvccflags", KERNELS[0])).split()
    assert {*includes} <= {*kernel}


def test_programs_find_its_kernels_beside_ours(family: FamilyProject) -> None:
    code = "from tilewright.libraries.registry import Registry; print(*Registry().tables)"
    modules = passes(family.run("-c", code)).split()
    assert {NAME, "sm90_gemm_lean"} <= {*modules}
    alone = passes(family.run("-c", code, TILEWRIGHT_GENERATED=f"{NAME}:only")).split()
    assert alone == [NAME]


def test_a_kernel_that_is_not_built_tells_how_to_build_it(family: FamilyProject, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = f"""\
import torch, tilewright
from tilewright import context
from tilewright.architectures.device import H200
with context.use(context.Context(described=H200)):
    tilewright.{NAME}(torch.ones(4, 8))
"""
    nothing_built = {"TILEWRIGHT_JIT": "0", "TILEWRIGHT_CACHE": str(tmp_path)}
    error = family.run("-c", code, **nothing_built).err
    (kernel, command) = re.search(r"NotBuiltError: (\w+) is not.*\nRun `tilewright (.*)`", error).groups()
    assert command == f"build --root {family.root} --filter {kernel}"
    passes(family.tilewright(*command.split(), "--dry-run"))


def test_of_two_modules_of_one_name_the_named_folder_counts(family: FamilyProject, tmp_path: Path) -> None:
    copy = tmp_path / "generated"
    shutil.copytree(family.root / "generated", copy)
    code = f"from tilewright.libraries.registry import Registry; print(Registry().tables[{NAME!r}].folder)"
    folder = passes(family.run("-c", code, TILEWRIGHT_GENERATED=str(copy))).strip()
    assert folder == str(copy / NAME)


def test_an_installed_wheel_brings_its_kernels(family: FamilyProject, tmp_path: Path) -> None:
    """As pyproject.toml says what a wheel takes and where it goes."""
    tomllib: Any = pytest.importorskip("tomllib")  # Python 3.11
    text = (family.root / "pyproject.toml").read_text(encoding="utf-8")
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source in wheel["only-include"]:
        shutil.copytree(family.root / source, tmp_path / wheel["sources"].get(source, source))
    code = f"from tilewright.libraries.registry import Registry; print(Registry().tables[{NAME!r}].folder)"
    places = f"{tmp_path}:{ROOT}/generator:{ROOT}/runtime"
    folder = passes(family.run("-c", code, PYTHONPATH=places, PYTHONSAFEPATH="1")).strip()
    assert folder == str(tmp_path / f"tilewright_families/{NAME}/generated/{NAME}")


def test_it_keeps_the_contract(family: FamilyProject) -> None:
    pytest.importorskip("torch")
    out = passes(family.run("-m", "pytest", "-q", "-p", "no:cacheprovider"))
    passed = re.search(r"(\d+) passed", out)
    assert passed
    assert int(passed[1]) > 60, out
    assert "skipped" not in out


def test_a_wrong_kernel_fails_its_tests(tmp_path: Path, family: FamilyProject) -> None:
    pytest.importorskip("torch")
    wrong = FamilyProject(tmp_path, family.cache)
    wrong.change(f"include/tilewright/{NAME}/host.hpp", "+ args.eps)", ")")
    answer = wrong.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "test_numbers or computed")
    assert answer.code == 1
    assert "test_numbers[f32]" in answer.out


def test_an_op_with_two_results(tmp_path: Path, family: FamilyProject) -> None:
    """The contract says that `empty_results` is not written yet, and holds for everything else."""
    pytest.importorskip("torch")
    two = FamilyProject(tmp_path, family.cache)
    two.change(
        "interface.py",
        "alignment=1, written=True),\n",
        "alignment=1, written=True),\n"
        '        Packed("sums", "[m]", extents=("m",), type="f32", alignment=4, written=True),\n',
    )
    two.change("interface.py", "Number, TacticStruct", "Number, Packed, TacticStruct")
    two.change("op.py", 'passed = ("x", "out")', 'written, passed = ("out", "sums"), ("x", "out", "sums")')
    arguments = "    out: torch.Tensor | None = None,\n"
    two.change("op.py", arguments, f"{arguments}{arguments.replace('out', 'sums')}")
    two.change("op.py", ") -> torch.Tensor:", ") -> tuple[torch.Tensor, torch.Tensor]:")
    two.change("op.py", "        tactic: a", "        sums: float32 [m]; made if absent.\n        tactic: a")
    host = f"include/tilewright/{NAME}/host.hpp"
    two.change(
        host,
        "      float const factor",
        "      static_cast<float*>(args.sums)[m] = sum;\n      float const factor",
    )
    tests = f"../../tests/test_{NAME}.py"
    two.change(tests, '"out": torch.zeros_like(x)}', '"out": torch.zeros_like(x), "sums": torch.zeros(16)}')
    two.change(
        tests, f"    out = tilewright.{NAME}(x, eps=0.25)", f"    out, _ = tilewright.{NAME}(x, eps=0.25)"
    )
    passes(two.run("-m", "tilewright.declarations.headers"))
    answer = two.run("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert re.search(r"1 failed, \d+ passed", answer.out), answer.out
    message = f"{NAME} has no `empty_results`: pass all results or none in a graph"
    assert f"NotImplementedError: {message}" in answer.out
    results = "(torch.empty_like(values['x']), torch.empty(len(values['x'])))"
    two.change(
        "op.py",
        "\n\n@public",
        f"\n    def empty_results(self, values):\n        return {results}\n\n\n@public",
    )
    passes(two.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "some_of_the_results"))


def test_its_files_are_formatted(family: FamilyProject) -> None:
    """As a project of its own would have it: tilewright is another package there."""
    ruff = [sys.executable, "-m", "ruff"]
    alone = ["--isolated", "--line-length", "110", "--target-version", "py310", str(family.root)]
    for words in (["check", "--select", "E,F,I,N,W,UP,B,SIM,RUF"], ["format", "--check"]):
        done = subprocess.run([*ruff, *words, *alone], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    formatter = Path(sys.executable).with_name("clang-format")
    if formatter.exists():
        headers = [str(path) for path in family.root.rglob("*.hpp")]
        style = f"--style=file:{ROOT / '.clang-format'}"
        subprocess.run([formatter, style, "--dry-run", "--Werror", *headers], check=True)


def test_another_family_of_the_same_project(tmp_path: Path, tilewright: Command) -> None:
    first = tilewright("new-family", NAME, "--into", str(tmp_path))
    assert (first.code, first.err) == (0, "")
    assert f"specs/{NAME}.yaml" in first.out
    before = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    second = tilewright("new-family", "gelu_rows", "--into", str(tmp_path), "--json")
    answer = json.loads(second.out)
    assert sorted(answer["kept"]) == [str(tmp_path / ".gitignore"), str(tmp_path / "pyproject.toml")]
    assert {Path(path).relative_to(tmp_path).as_posix() for path in answer["written"]} == {
        *scaffold.files("gelu_rows")
    } - {"pyproject.toml", ".gitignore"}
    assert (tmp_path / "pyproject.toml").read_text(encoding="utf-8") == before


def test_git_ignores_what_python_leaves(tmp_path: Path, tilewright: Command) -> None:
    assert tilewright("new-family", NAME, "--into", str(tmp_path)).code == 0
    for left in ("__pycache__/op.cpython-312.pyc", ".pytest_cache/v/x", ".venv/bin/python", "dist/x.whl"):
        path = tmp_path / left
        path.parent.mkdir(parents=True)
        path.touch()
    assert untracked(tmp_path) == {*scaffold.files(NAME)}


def test_nothing_is_replaced(tmp_path: Path, tilewright: Command) -> None:
    rules = tmp_path / f"tilewright_families/{NAME}/rules.py"
    rules.parent.mkdir(parents=True)
    rules.write_text("mine", encoding="utf-8")
    answer = tilewright("new-family", NAME, "--into", str(tmp_path))
    assert answer.code == 2
    assert f"{rules} is there already, and nothing was written" in answer.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [rules]
    assert rules.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_write_that_fails(
    failure: BaseException, tmp_path: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, write = tmp_path / "above" / "project", writing.write

    def fails(path: Path, text: str, root: Path) -> None:
        if path.name == "op.py":
            raise failure
        write(path, text, root)

    monkeypatch.setattr(writing, "write", fails)
    answer = tilewright("new-family", NAME, "--into", str(project))
    assert not list(tmp_path.iterdir())
    if isinstance(failure, OSError):
        path = project / f"tilewright_families/{NAME}/op.py"
        assert answer.err == f"Error: cannot write {path}: No space left on device; nothing was written\n"
        assert answer.code == 2
    monkeypatch.undo()
    assert tilewright("new-family", NAME, "--into", str(project)).code == 0


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Relu-Rows", "did you mean 'relu_rows'?"),
        ("2nd", "starting with a letter\n"),
        ("relu__rows", "did you mean 'relu_rows'?"),
        ("übel", "starting with a letter\n"),
        ("", "starting with a letter\n"),
        ("x" * 33, f"did you mean '{'x' * 32}'?"),
        ("class", "'class' is a keyword"),
        ("union", "'union' is a keyword"),
        ("gemm", "there is a family 'gemm' already"),
        ("mm_nvfp4", "mm_nvfp4 is an op of blockscaled_gemm"),
        ("einsum", "tilewright.einsum is something else already"),
        ("contract", "tilewright.contract is something else already"),
        ("sm90", "used by the folder include/tilewright/sm90"),
        ("launch", "used by tilewright/"),
    ],
)
def test_names_that_no_family_can_have(name: str, advice: str, tmp_path: Path, tilewright: Command) -> None:
    answer = tilewright("new-family", name, "--into", str(tmp_path / "project"))
    assert answer.code == 2
    assert advice in answer.err
    assert not (tmp_path / "project").exists()


def test_it_has_every_module_that_a_family_of_ours_has() -> None:
    paths = map(Path, scaffold.files(NAME))
    modules = {path.stem for path in paths if path.parent.name == NAME and path.suffix == ".py"}
    ours = {path.stem for path in (ROOT / "runtime/tilewright/families/hc_prenorm").glob("*.py")}
    assert ours <= modules
