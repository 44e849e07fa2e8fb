"""Files that commands write besides generated ones: no command replaces what it did not write."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
from command_line import Command

from tilewright.compile import report as build_report
from tilewright.compile.report import BuildReport
from tilewright.errors import UnwritableFileError
from tilewright.tools.benchmarking.report import CSV_MARK, RECORD_MARK
from tilewright.tools.tuning import report as tuning_report
from tilewright_generator.cli.output_files import OutputFile
from tilewright_generator.errors import UsageError

MINE = "# My own work\n"
COMPARE = ["bench", "compare", "schedule=pingpong", "schedule=cooperative", "--family", "gemm"]
SIZES = ["--family", "gemm", "-s", "1x1x1"]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["build", "--nvcc", "/nonexistent/nvcc", "--report", "r.json"], "r.json"),
        ([*COMPARE, "--csv", "t.csv"], "t.csv"),
        ([*COMPARE, "--results", "r.json"], "r.json"),
        (["tune", *SIZES, "--results", "r.json"], "r.json"),
        (["tune", "--report", "page.html"], "page.html"),
        (["tune", "--report", "README.svg"], "README.svg"),
        (["tune", "--report", "README.png"], "README.md"),
        (["schema", "gemm"], "specs/schema/gemm.schema.json"),
        (["report", "-o", "speed.svg"], "speed.svg"),
        (["report", "-o", "page.html"], "page.html"),
    ],
)
def test_what_a_command_did_not_write_stays(
    words: list[str], name: str, project: Path, tilewright: Command
) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MINE)
    actual = tilewright(*words)
    assert actual.code == 2
    assert f"{name} exists and is no file that this command writes: move it away, or --force" in actual.err
    assert path.read_text() == MINE


def test_what_a_command_wrote_is_replaced_and_anything_by_force(project: Path, tilewright: Command) -> None:
    path, words = project / "specs" / "schema" / "gemm.schema.json", ("schema", "gemm")
    first = tilewright(*words)
    assert (first.code, first.out) == (0, f"wrote {path}\n")
    written = path.read_text()
    path.write_text(written + "a line more\n")
    assert tilewright(*words).code == 0
    assert path.read_text() == written
    path.write_text(MINE)
    assert tilewright(*words, "--force").code == 0
    assert path.read_text() == written


def test_no_schema_is_written_where_one_cannot_be(project: Path, tilewright: Command) -> None:
    folder = project / "specs" / "schema"
    folder.mkdir()
    (folder / "quantize.schema.json").write_text(MINE)
    assert tilewright("schema", "gemm", "quantize").code == 2
    assert [path.name for path in folder.iterdir()] == ["quantize.schema.json"]


def test_the_beginnings_of_files() -> None:
    """Every kind of file is recognised, and none of them as another."""
    report = BuildReport({}, [], [], [], 0.0, 1, strict=False).text()
    kinds = {
        build_report.MARK: report.encode(),
        CSV_MARK: b"m,n,k,wide_ms,wide_tflops,wide_tactic,thin_ms,thin_tflops,thin_tactic,speedup\n1,2,3\n",
        RECORD_MARK: b'{\n "device": "NVIDIA H200",\n "tilewright": "0.1.0"\n}\n',
        tuning_report.MARK: b"# gemm\n\n" + tuning_report.markdown([]).encode(),
    }
    for mark, text in kinds.items():
        assert [other for other in kinds if other.search(text)] == [mark]


OURS = re.compile(rb"\Aours")


def test_a_file_keeps_its_mode_and_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """A link that the user names, too: what it leads to may be anybody's."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("ours")
    real.chmod(0o640)
    link.symlink_to(real)
    OutputFile(real, OURS).write("ours, too\n")
    assert (real.read_text(), real.stat().st_mode & 0o777) == ("ours, too\n", 0o640)
    for force in (False, True):
        output = OutputFile(link, OURS, force)
        for act in (output.check, lambda output=output: output.write("ours")):
            with pytest.raises(UnwritableFileError, match=f"{link}: a symbolic link, and nothing is written"):
                act()
    assert (link.is_symlink(), real.read_text()) == (True, "ours, too\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"], "no draft is left"
    real.write_text(MINE)
    with pytest.raises(UsageError, match="is no file that this command writes"):
        OutputFile(real, OURS).write("ours")
    real.write_text("")
    OutputFile(real, OURS).write("ours")
    assert real.read_text() == "ours", "an empty file, as mktemp makes it, is nobody's work"


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    OutputFile(pipe, OURS).write("through")
    reader.join()
    assert read == ["through"]
    OutputFile(Path("/dev/null"), OURS).write("nowhere")
    with pytest.raises(UsageError, match="cannot write /dev/full: No space left on device"):
        OutputFile(Path("/dev/full"), OURS).write("too much")


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("ours")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(UsageError, match=f"cannot write {path}: No space left on device"):
            OutputFile(path, OURS).write("ours, too")
    assert (path.read_text(), [*tmp_path.iterdir()]) == ("ours", [path])
    with pytest.raises(UsageError, match="there is no folder"):
        OutputFile(tmp_path / "none" / "file", OURS).check()
