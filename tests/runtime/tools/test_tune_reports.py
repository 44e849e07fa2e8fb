"""`tilewright tune`: reports of tuned files, and files that are merged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tuned_sizes import ROOT, tune, written

from tilewright.base import paths
from tilewright.selection import tuned_files


@pytest.mark.parametrize("form", ["html", "png", "svg"])
def test_a_report_of_a_file(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'tilewright[report]')")
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(written(tmp_path / "tuned")))
    target = tmp_path / f"x.{form}"
    family = () if form == "html" else ("--family", "gemm")
    assert tune("--report", target, "--device", "h200", *family) == 0
    counted = {
        (str(section.kind), row["m"], row["n"], row["k"])
        for folder in (tmp_path / "tuned", ROOT / "tuned")
        for section in tuned_files.read(folder / "nvidia_h200" / "gemm.json").sections
        for row in section.rows
    }
    said = capsys.readouterr().out
    assert f" {len(counted)} problems of gemm (" in said, "the shipped ones are among them"
    written_files = [target] if form == "html" else [target, target.with_suffix(".md")]
    assert said.startswith(f"drawn in {' and '.join(map(str, written_files))}: ")
    assert sorted(tmp_path.glob("x.*")) == sorted(written_files)
    if form == "png":
        assert target.read_bytes().startswith(b"\x89PNG")
    else:
        text = target.read_text()
        assert "<svg" in text
        assert "memory: 4.80 TB/s" in text
        # 2 * 64 * 32 / 2 multiplications of 2 operations, 132 SMs, 1.98 GHz; FP8 twice that.
        assert "1071 TFLOP/s" in text
        assert "2141 TFLOP/s" in text
    table = target.read_text() if form == "html" else target.with_suffix(".md").read_text()
    assert (
        "gemm 16x4096x7168 bf16 x bf16 -&gt; bf16" in table
        or "gemm 16x4096x7168 bf16 x bf16 -> bf16" in table
    )
    assert "728.8" in table, "2 * 4096 * 4096 * 7168 operations in 330 us"
    first = target.read_bytes()
    assert tune("--report", target, "--device", "h200", *family) == 0
    assert target.read_bytes() == first


def test_a_report_of_several_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A page has a section of each, an image holds one; what does not multiply has one panel."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'tilewright[report]')")
    shipped = [ROOT / "tuned" / "nvidia_h200" / f"{name}.json" for name in ("gemm", "quantize")]
    counts = [sum(len(section.rows) for section in tuned_files.read(path).sections) for path in shipped]
    assert tune("--report", tmp_path / "x.html", *shipped) == 0
    said = capsys.readouterr().out
    for path, name, count in zip(shipped, ("gemm", "quantize"), counts, strict=True):
        assert f"{count:,} problems of {name} ({path})" in said
    page = (tmp_path / "x.html").read_text()
    assert page.count("<section>") == page.count("<svg ") == 2
    assert page.count("<tr><td>") == sum(counts)
    assert tune("--report", tmp_path / "x.html", *shipped, "--family", "quantize") == 0
    assert "gemm" not in capsys.readouterr().out
    page = (tmp_path / "x.html").read_text()
    assert "<h1>quantize on NVIDIA H200, tuned</h1>" in page
    assert ">TFLOP/s</text>" not in page
    assert "-&gt; mxfp8, scales 128x4</text>" in page, "the legend"
    assert tune("--report", tmp_path / "x.svg", *shipped) == 2
    assert "--family says which" in capsys.readouterr().err
    assert not (tmp_path / "x.svg").exists()
    unknown = tmp_path / "foo.json"
    unknown.write_text(shipped[0].read_text().replace('"family": "gemm"', '"family": "foo"'))
    assert tune("--report", tmp_path / "x.html", unknown) == 2
    assert "is of foo; the families are blockscaled_gemm, " in capsys.readouterr().err


def test_reports_that_cannot_be_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(written(tmp_path / "tuned")))
    assert tune("--report", tmp_path / "x.pdf", "--device", "h200") == 2
    assert "expected one of .html, .png, .svg" in capsys.readouterr().err
    assert tune("--report", tmp_path / "x.html", "--device", "b200") == 2
    assert "there is no tuned file for NVIDIA B200" in capsys.readouterr().err
    assert tune("--report", tmp_path / "x.html", "--device", "b200", "--family", "quantize") == 2
    assert "there is no tuned file of quantize for NVIDIA B200" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert tune("--report", tmp_path / "x.html", "--device", "h200") == 2
    assert "pip install 'tilewright[report]'" in capsys.readouterr().err


def test_a_merge_holds_the_entries_of_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Entries of files of one machine go together, what is not of these kernels is passed over."""
    first_file, second_file = (
        paths.tuned_file(written(tmp_path / name), "NVIDIA H200", "gemm") for name in ("a", "b")
    )
    text = second_file.read_text().replace('"m": 16,', '"m": 24,').replace("_e4m3_e4m3_", "_e4m3_e3m4_")
    second_file.write_text(text)
    assert tune("--merge", first_file, second_file, "--out", tmp_path / "c") == 0
    actual = capsys.readouterr()
    assert [line.partition(" went to ")[0] for line in actual.out.splitlines()] == ["3 entries", "2 entries"]
    assert f"{second_file}: passed over 1 entry: gemm_sm90_e4m3_e3m4_" in actual.err
    assert "(no such kernel)" in actual.err
    target = paths.tuned_file(tmp_path / "c", "NVIDIA H200", "gemm")
    rows = [(row["m"], row["k"]) for section in tuned_files.read(target).sections for row in section.rows]
    assert sorted(rows) == [(16, 7168), (24, 7168), (4096, 7168), (4096, 7168)]


def test_what_a_merge_writes_it_takes_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A header's releases are read as they are compared, and no field is replaced by less."""
    first_file, second_file, less = (
        paths.tuned_file(written(tmp_path / name), "NVIDIA H200", "gemm") for name in ("a", "b", "less")
    )
    first_file.write_text(first_file.read_text().replace('"cuda": "13.0"', '"cuda": "13.0.88"'))
    less.write_text(less.read_text().replace('"driver": "580.1"', '"driver": ""'))
    target = paths.tuned_file(tmp_path / "c", "NVIDIA H200", "gemm")
    for sources in ([first_file], [first_file], [second_file], [first_file, second_file], [target]):
        assert tune("--merge", *sources, "--out", tmp_path / "c") == 0, capsys.readouterr().err
        assert tuned_files.read(target).header == tuned_files.read(second_file).header
    before = target.read_bytes()
    assert tune("--merge", less, "--out", tmp_path / "c") == 2
    assert "its driver is 580.1, here it is not known" in capsys.readouterr().err
    assert tune("--merge", first_file, less, "--out", tmp_path / "d") == 2
    assert "are of different machines" in capsys.readouterr().err
    assert (target.read_bytes(), (tmp_path / "d").exists()) == (before, False)


def test_merging_looks_at_all_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gemm_file = paths.tuned_file(written(tmp_path / "a"), "NVIDIA H200", "gemm")
    quantize = ROOT / "tuned" / "nvidia_h200" / "quantize.json"
    cut, other = tmp_path / "cut.json", tmp_path / "other.json"
    cut.write_text(gemm_file.read_text()[:-9])
    other.write_text(gemm_file.read_text().replace('"580.1"', '"570.1"'))
    out = tmp_path / "c"
    for second, why in (
        ([cut], "cut.json is damaged"),
        ([other], "are of different machines: its driver is 580.1, here it is 570.1"),
        ([quantize, "--family", "gemm"], "is of quantize, not of gemm"),
    ):
        assert tune("--merge", gemm_file, *second, "--out", out) == 2
        assert why in capsys.readouterr().err
        assert not out.exists()
    assert tune("--merge", gemm_file, quantize, "--out", out) == 0
    assert {path.name for path in out.rglob("*.json")} == {"gemm.json", "quantize.json"}
    foreign = paths.tuned_file(out, "NVIDIA H200", "quantize")
    foreign.write_text(foreign.read_text().replace('"sm_count": 132', '"sm_count": 78'))
    before = paths.tuned_file(out, "NVIDIA H200", "gemm").read_bytes()
    assert tune("--merge", gemm_file, "--out", out) == 0
    assert tune("--merge", gemm_file, quantize, "--out", out) == 2
    assert "is of another machine" in capsys.readouterr().err
    assert paths.tuned_file(out, "NVIDIA H200", "gemm").read_bytes() == before


def test_a_section_of_unknown_problems_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gemm_file = paths.tuned_file(written(tmp_path / "a"), "NVIDIA H200", "gemm")
    gemm_file.write_text(gemm_file.read_text().replace('"layout": "tn"', '"layout": "sideways"'))
    assert tune("--merge", gemm_file, "--out", tmp_path / "c") == 0
    assert "its problem is none of the family's" in capsys.readouterr().err
