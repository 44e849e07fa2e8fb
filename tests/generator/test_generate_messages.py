"""What `generate` and `check` print: for machines, of what rules leave out, and of errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_family
from command_line import Command
from small_project import FAST, LEFT_OUT, edit

from tilewright_generator import generation


@pytest.fixture
def larger(project: Path) -> Path:
    """With two combinations that are left out: the tile of 256 rows is for e4m3 alone."""
    edit(project / "specs/small.yaml", "[64x64x64,", "[256x64x64, 64x64x64,")
    edit(project / "specs/small.yaml", "dtype: bf16", "dtype: [bf16, e4m3]")
    return project


def test_check_tells_the_options_that_reach_the_same_files(project: Path, tilewright: Command) -> None:
    actual = tilewright("check", "specs/small.yaml", "--out", "else where")
    assert actual.code == 1
    assert "tilewright generate specs/small.yaml --out 'else where'" in actual.err
    actual = tilewright("check", "--filter", "fast=true", "--filter", "tile=64x*")
    assert "with: tilewright generate --filter fast=true --filter 'tile=64x*'\n" in actual.err


def test_one_kernel_is_told_in_the_singular(project: Path, tilewright: Command) -> None:
    edit(project / "specs/small.yaml", "[64x64x64, 128x128x64]", "64x64x64")
    edit(project / "specs/small.yaml", "fast: [false, true]", "fast: false")
    assert tilewright("generate").out.endswith("; 1 unit to compile\n")
    assert tilewright("generate").out == "nothing to do: 1 kernel in 1 module is as the specs say\n"
    assert tilewright("check").out == "1 kernel of 1 module is as the specs say\n"


def test_a_build_report_needs_its_folder_before_anything_is_built(tilewright: Command) -> None:
    actual = tilewright("build", "--report", "/nonexistent/r.json", "--nvcc", "/nonexistent/nvcc")
    assert actual.code == 2
    assert "--report /nonexistent/r.json: there is no folder /nonexistent" in actual.err


def test_json_for_machines(larger: Path, tilewright: Command) -> None:
    answer = json.loads(tilewright("generate", "--json", "--dry-run").out)
    assert answer["applied"] is False
    assert answer["modules"]["small"] == {
        "spec": "specs/small.yaml",
        "kernels": 10,
        "excluded": 0,
        "rejected": {"rows": 2},
        "left_out": [
            {
                "name": name,
                "position": "specs/small.yaml:6:5",
                "rule": "rows",
                "reason": "256 rows > 128",
                "limit": "the hardware's",
            }
            for name in LEFT_OUT
        ],
        "unchanged": 0,
        "units": 10,
    }
    assert {"change": "add", "path": FAST} in answer["actions"]


def test_generate_names_what_rules_leave_out_and_check_counts_it(larger: Path, tilewright: Command) -> None:
    counted = "specs/small.yaml: 2 combinations left out: rows 2"
    named = [f"  {name}: rows: 256 rows > 128 (limit: the hardware's)" for name in LEFT_OUT]
    hint = "  if that is meant, say so by `exclude:` with a reason at specs/small.yaml:6:5"
    assert tilewright("generate").out.splitlines()[:4] == [counted, *named, hint]
    again = tilewright("generate").out.splitlines()
    assert again == [counted, "nothing to do: 10 kernels in 1 module are as the specs say"], (
        "names are said once"
    )
    assert tilewright("check").out.splitlines() == [counted, "10 kernels of 1 module are as the specs say"]
    assert json.loads(tilewright("check", "--json").out)["left_out"] == {"small": 2}
    edit(larger / "specs/small.yaml", "fast: [", "stages: [2, 3, 4, 5, 6, 7]\n    fast: [")
    assert f"specs/small.yaml: {2 * 6} combinations" in tilewright("check").out
    edit(larger / "specs/small.yaml", "64x64x64,", "64x64x64, 192x64x64,")
    lines = tilewright("generate").out.splitlines()
    assert len([line for line in lines if ": rows: " in line]) == 20
    assert "  ... and 4 more (--json lists all)" in lines
    edit(
        larger / "specs/small.yaml",
        "    stages: [",
        "    exclude: {tile: [256x64x64, 192x64x64], dtype: bf16, reason: e4m3 alone}\n    stages: [",
    )
    assert "left out" not in tilewright("generate").out, "the spec says it"


def test_a_value_that_makes_no_kernel_is_an_error(project: Path, tilewright: Command) -> None:
    """Though others of its list do: in a product it would vanish."""
    edit(project / "specs/small.yaml", "[64x64x64,", "[256x64x64, 64x64x64,")
    for command in ("generate", "check"):
        actual = tilewright(command)
        assert (actual.code, actual.out) == (2, "")
        assert actual.err.splitlines()[0] == (
            "specs/small.yaml:6:12: tile: 256x64x64 makes no kernel: rows rejects 2; for example 256 rows > "
            "128 (limit: the hardware's); legal nearby: tile 128x64x64"
        )


def test_usage_errors_exit_with_2(project: Path, tilewright: Command, tmp_path: Path) -> None:
    assert tilewright("generate", "--filter", "tiel=1").code == 2
    assert tilewright("generate", "specs/none.yaml").code == 2
    assert tilewright("generate", "--root", "none").code == 2
    assert tilewright("genrate").code == 2
    for spec in (project / "specs").iterdir():
        spec.unlink()
    empty = tilewright("generate")
    assert (empty.code, "holds no *.yaml" in empty.err) == (2, True)


def test_internal_errors_are_one_line_and_a_traceback_only_when_asked(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "plan", lambda *_: {}["no such key"])
    actual = tilewright("generate")
    assert actual.code == 3
    assert actual.err == (
        "Error: internal error: KeyError: 'no such key'\n"
        "TILEWRIGHT_DEBUG=1 shows the traceback; please report it\n"
    )
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    with pytest.raises(KeyError):
        tilewright("generate")


def test_the_faults_of_one_spec_do_not_hide_those_of_another(project: Path, tilewright: Command) -> None:
    specs = {
        "a.yaml": b"family: tiny\nconfigs: 3\n",
        "b.yaml": b"",
        "c.yaml": b"\xff\xfe\xff",
        "d.yaml": b"family: tinny\n",
        "e.yaml": b'family: tiny\nrequires: ">=99"\n',
        "f.yaml": b"a: [\n",
        "g.yaml": b"<<<<<<< ours\n",
        "h.yaml": tiny_family.SPEC.encode().replace(b"64x64x64", b"64x64x64, 512x512x64"),
        "i.yaml": tiny_family.SPEC.encode().replace(b"tiny", b"tiny\nmax_combinations: 1"),
    }
    for name, data in specs.items():
        (project / "specs" / name).write_bytes(data)
    (project / "specs/j.yaml").mkdir()  # it cannot be read
    (project / "specs/k.yaml").write_bytes(b"family: tiny\nconfigs: 4\n")
    actual = tilewright("generate")
    assert actual.code == 2
    named = {line.split(":")[0] for line in actual.err.splitlines()[:-1]}
    readable = {f"specs/{name}" for name in (*specs, "k.yaml")}
    assert readable | {"specs/j.yaml"} <= named
