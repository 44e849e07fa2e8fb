"""`tilewright tune` as a user calls it; where it would measure on a GPU, kernels of the host run."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from host_modules import Built
from tuned_sizes import SIZES, tune
from tuning_lines import problem_lines

from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.selection import tuned_files
from tilewright.tools.sharding.engine import Local
from tilewright.tools.tuning import workers
from tilewright_generator.cli import running, tuning_progress
from tilewright_generator.cli.tuning_place import Place


def test_a_dry_run_says_what_a_real_run_would_begin_with(
    gpu: Path, host: Context, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*more: str) -> list[str]:
        assert tune(*SIZES, "--dry-run", "--device", "h200", *more) == 0
        return capsys.readouterr().out.splitlines()

    assert tune(SIZES[0], SIZES[1]) == 0
    capsys.readouterr()
    lines = planned()
    assert f"  results would go to {gpu}" in lines
    assert "  1 of them has an entry there; --again tunes them" in lines
    assert "  2 kernels for such problems, of which 2 are built" in lines
    assert not any("refuse" in line for line in lines)
    built = host.registry.is_built
    monkeypatch.setattr(
        host.registry, "is_built", lambda record: built(record) and "streamk" not in record.name
    )
    lines = planned()
    assert "  a real run would refuse: not built: 1 of 2 kernels of gemm" in lines
    assert any(line.startswith("    Build them with: tilewright build ") for line in lines)
    only = planned("--built-only")
    assert "  --built-only leaves out 1 kernel" in only
    for less, all_ in zip(problem_lines(only), problem_lines(lines), strict=True):
        assert fitting(less) < fitting(all_)
    assert "  --build builds 1 kernel first" in planned("--build")
    gpu.write_text("{")
    assert any("would set that file aside" in line for line in planned())


def fitting(line: str) -> int:
    return int(line.rpartition(": ")[2].split(", ")[0])


@pytest.fixture
def gpu(
    host: Context, host_generated: Path, host_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Host kernels in a process of their own, as if on an H200; where the tuned file is."""
    from host_tuning import HostSite  # noqa: PLC0415 (it needs torch)

    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    monkeypatch.setattr(running, "missing", lambda: None)
    monkeypatch.setattr(running, "context_of", lambda root: host)
    monkeypatch.setattr(
        Place, "of_here", lambda named, current: Place(Local([0]), H200, None, "NVIDIA H200 0")
    )
    monkeypatch.setattr(workers, "GpuSite", lambda *_: HostSite(host_generated, host_library))
    return tmp_path / "tuned" / "nvidia_h200" / "gemm.json"


def test_tuning_resuming_and_again(gpu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(*SIZES, "--results", tmp_path / "x.json") == 0
    actual = capsys.readouterr()
    assert "[2/2] gemm 32x48x64 bf16 x bf16 -> bf16, layout tn: " in actual.err
    assert "2 problems tuned in " in actual.out
    assert str(gpu) in actual.out
    rows = [row for section in tuned_files.read(gpu).sections for row in section.rows]
    assert [row["m"] for row in rows] == [8, 32]
    record = json.loads((tmp_path / "x.json").read_text())
    assert [result["tactic"] for result in record["results"]] == [row["tactic"] for row in rows]
    assert record["settings"]["given"] == ["8x48x64", "32x48x64"]
    assert tune(*SIZES, "-s", "16x48x64") == 0
    actual = capsys.readouterr()
    assert f"2 problems have an entry in {gpu}; --again tunes them" in actual.err
    assert "[1/1] gemm 16x48x64" in actual.err
    assert tune(*SIZES) == 0
    assert "nothing is left to tune" in capsys.readouterr().out
    assert tune(*SIZES, "--again") == 0
    assert "2 problems tuned" in capsys.readouterr().out
    assert len([row for section in tuned_files.read(gpu).sections for row in section.rows]) == 3


def unsee(path: Path, kernel: str) -> None:
    """As if the file's entries had been tuned before there was the kernel."""
    name = f'  "{kernel}"'
    text = path.read_text()
    assert name in text
    path.write_text(text.replace(f"{name},\n", "").replace(f",\n{name}]", "]"))


def test_new_kernels_are_tuned_beside_what_is_tuned(gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(*SIZES, "-s", "16x48x64") == 0
    before = tuned_files.read(gpu).sections
    assert [section.seen for section in before] == [("host_bf16_tn", "host_bf16_tn_streamk")]
    unsee(gpu, "host_bf16_tn_streamk")
    gpu.write_text(gpu.read_text().replace('  "host_bf16_tn"', '  "gone",\n  "host_bf16_tn"'))
    capsys.readouterr()
    assert tune(*SIZES, "--dry-run", "--device", "h200") == 0
    more = "--again tunes them, --only-new the kernels that 2 of them have not seen"
    assert f"  2 of them have an entry there; {more}" in capsys.readouterr().out
    assert tune(*SIZES) == 0
    assert more in capsys.readouterr().err
    assert tune("--only-new", "-s", "16x48x64", "-s", "24x48x64", "--dry-run", "--device", "h200") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("1 problem of gemm"), "24 is not tuned, and so has nothing to be beside"
    assert "  1 of them has an entry there, beside which kernels are timed that it has not seen" in lines
    assert tune("--only-new", "-s", "16x48x64") == 0
    assert "1 problem tuned in" in capsys.readouterr().out
    assert [[row["m"] for row in section.rows] for section in tuned_files.read(gpu).sections] == [
        [8, 32],
        [16],
    ]
    assert tune("--only-new") == 0
    actual = capsys.readouterr()
    assert "[2/2] gemm 32x48x64" in actual.err
    (section,) = tuned_files.read(gpu).sections
    assert section.seen == ("gone", *before[0].seen), "what lost before there were the new ones stays seen"
    assert [row["m"] for row in section.rows] == [8, 16, 32]
    for more in ([], ["--dry-run", "--device", "h200"]):
        assert tune("--only-new", *more) == 0
        assert "nothing is left to tune" in capsys.readouterr().out


def test_only_built_kernels_are_seen(
    gpu: Path, host: Context, host_library: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What --built-only leaves out is tuned beside the others when it is built."""
    from host_tuning import HostSite  # noqa: PLC0415 (it needs torch)

    def site(*absent: str) -> None:
        made = HostSite(host.registry.folders[0], host_library, absent=("host_absent", *absent))
        monkeypatch.setattr(workers, "GpuSite", lambda *_: made)
        host.registry._find_libraries = lambda module: [Built(host_library, made.absent)]
        host.registry.refresh()

    site("host_bf16_tn_streamk")
    assert tune(*SIZES, "--built-only") == 0
    assert [section.seen for section in tuned_files.read(gpu).sections] == [("host_bf16_tn",)]
    site()
    capsys.readouterr()
    assert tune("--only-new") == 0
    assert "2 problems tuned in" in capsys.readouterr().out
    assert [section.seen for section in tuned_files.read(gpu).sections] == [
        ("host_bf16_tn", "host_bf16_tn_streamk")
    ]


def test_the_folder_that_is_named(gpu: Path, tmp_path: Path) -> None:
    assert tune(*SIZES, "--out", tmp_path / "defaults") == 0
    assert not gpu.exists()
    assert (tmp_path / "defaults" / "nvidia_h200" / "gemm.json").exists()


def test_a_file_of_another_machine(gpu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune(*SIZES) == 0
    text = gpu.read_text().replace('"cuda": "13.0"', '"cuda": "12.9"')
    gpu.write_text(text)
    capsys.readouterr()
    assert tune(*SIZES, "--again") == 2
    said = capsys.readouterr().err
    assert "its CUDA is 12.9, here it is 13.0" in said
    assert "--out FOLDER" in said
    assert gpu.read_text() == text


def test_a_problem_without_a_kernel_fails_and_the_others_do_not(
    gpu: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune("-s", "8x48x63", *SIZES) == 1
    actual = capsys.readouterr()
    assert "gemm 8x48x63 bf16 x bf16 -> bf16, layout tn: no result: " in actual.err
    assert "2 problems tuned" in actual.out
    assert "; 1 without a result" in actual.out


def test_kernels_that_are_not_built(gpu: Path, host: Context, capsys: pytest.CaptureFixture[str]) -> None:
    host.registry._find_libraries = lambda module: []
    host.registry.refresh()
    assert tune(*SIZES) == 1
    assert "not built: 2 of 2 kernels of gemm" in capsys.readouterr().err


def test_sigterm_ends_the_workers() -> None:
    engine = Local([0])
    engine.submit(sleeps, 1)
    next(engine.events())
    (worker,) = engine._workers.values()
    place, before = Place(engine, H200, None, "here"), signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught, place.closing():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 143
    assert not worker.process.is_alive()
    assert signal.getsignal(signal.SIGTERM) is before


def sleeps(shard: Any, place: int, say: Any) -> Any:
    import time  # noqa: PLC0415

    time.sleep(60)
    yield shard


def test_a_terminal_sees_a_bar_and_a_log_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    import io  # noqa: PLC0415

    from tilewright.declarations.tactics import Tactic  # noqa: PLC0415
    from tilewright.tools.tuning.search import Result  # noqa: PLC0415
    from tilewright.tools.tuning.trials import Timing  # noqa: PLC0415

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "200")
    failed = Timing(Tactic("y"), None, "CUDA\nerror 1")
    result = Result("gemm 1x2x3", Tactic("x", splits=2), 1.5e-6, 9, 4, 0, Tactic("z"), 3e-6, (failed,))
    for stream in (io.StringIO(), Tty()):
        progress = tuning_progress.progress_for(2, stream)
        progress.begin()
        progress.result(result)
        progress.end()
        text = stream.getvalue()
        assert "gemm 1x2x3: 1.50 us x@splits=2, 2.000 times as fast as the model's first" in text
        assert "  failed: y: CUDA; error 1" in text
        assert ("[############............] 1/2 0:0" in text) == stream.isatty()
