"""`tilewright doctor`: the checks on this machine, and on machines that lack something."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from doctor_findings import Say, levels, texts

from tilewright.architectures import device
from tilewright.architectures.device import B200, H200, THOR
from tilewright.base import paths
from tilewright.compile.disk import UNIT_DISK_BYTES
from tilewright.compile.store import Store
from tilewright.context import Context
from tilewright.declarations import catalog
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of
from tilewright.tools import doctor
from tilewright.tools.doctor import machine
from tilewright_generator import cli

KEY = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in machine.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(device, "present", lambda: None)
    monkeypatch.setattr(device, "driver", lambda: None)


@pytest.fixture
def say(host_generated: Path, built: Any, host_library: Path) -> Say:
    """The findings of an area, on a machine whose GPU is `gpu`."""

    def run(area: str, gpu: Any = None, lacking: tuple[str, ...] = ()) -> list[doctor.Finding]:
        listing = [built(host_library, lacking)]
        context = Context(Registry(host_generated, libraries=lambda module: listing))
        return [each for each in doctor.diagnose(context, gpu) if each.area == area]

    return run


@pytest.fixture
def gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H200 and its driver."""
    monkeypatch.setattr(device, "present", lambda: H200)
    monkeypatch.setattr(device, "driver", lambda: "580.159.04")
    monkeypatch.setattr(machine, "_gpus", lambda: [H200, H200])
    monkeypatch.setattr(machine, "driver_cuda", lambda: (13, 0))


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for module in ("toolchain", "cutlass"):
        monkeypatch.setattr(f"tilewright.compile.nvcc.{module}.package_folders", lambda name: ())


def test_variables_that_cannot_be_meant(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels(say("environment")) == {doctor.OK}
    for name, value in (
        ("TILEWRIGHT_JTI", "0"),
        ("TILEWRIGHT_JIT", "no"),
        ("TILEWRIGHT_GENERATED", "/nowhere"),
        ("TILEWRIGHT_BUNDLE", "/nothing"),
        ("TILEWRIGHT_LIBRARIES", "/none"),
        ("TILEWRIGHT_TUNED", "/etc:/untuned"),
        ("TILEWRIGHT_LOG", "loud"),
        ("TILEWRIGHT_LAUNCHER", "no-such-launcher --flag"),
        ("TILEWRIGHT_VLLM", "1"),
        ("CUDA_HOME", "/nowhere"),
    ):
        monkeypatch.setenv(name, value)
    text = texts(say("environment"))
    assert (
        "warning: TILEWRIGHT_JTI=0: Tilewright reads no such variable -> Did you mean TILEWRIGHT_JIT?" in text
    )
    for name, wrong in (
        (
            "TILEWRIGHT_JIT=no",
            "expected 0 (never compile), 1 (compile the best kernel), or lazy (prefer a built kernel)",
        ),
        ("TILEWRIGHT_GENERATED=/nowhere", "there is no folder /nowhere"),
        ("TILEWRIGHT_BUNDLE=/nothing", "/nothing is no bundle: there is no bundle.json in it"),
        ("TILEWRIGHT_LIBRARIES=/none", "there is no folder /none"),
        ("TILEWRIGHT_TUNED=/etc:/untuned", "there is no folder /untuned"),
        ("TILEWRIGHT_LOG=loud", "the level must be one of debug, info, warning, error"),
        ("TILEWRIGHT_LAUNCHER=no-such-launcher --flag", "there is no such program"),
        ("TILEWRIGHT_VLLM=1", "only first puts our kernels before vLLM's"),
        ("CUDA_HOME=/nowhere", "there is no bin/nvcc in it"),
    ):
        assert f"warning: {name}: {wrong} -> Unset {name.partition('=')[0]}, or mend its value." in text


def test_no_toolchain_is_a_problem_where_something_is_to_be_compiled(
    say: Say, no_tools: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert levels(say("toolchain")) >= {doctor.WARNING}
    assert doctor.PROBLEM not in levels(say("toolchain"))
    monkeypatch.setattr(device, "present", lambda: H200)
    monkeypatch.setattr(machine, "_gpus", lambda: [H200])
    findings = say("toolchain", lacking=("host_absent",))
    assert findings[0].level == doctor.PROBLEM
    assert "no usable nvcc and no usable host compiler" in findings[0].text
    assert "pip install 'tilewright[toolchain]'" in findings[0].mend
    assert doctor.PROBLEM not in levels(say("toolchain"))  # all that runs here is built
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    assert doctor.PROBLEM not in levels(say("toolchain", lacking=("host_absent",)))


def test_no_toolchain_is_a_problem_where_nothing_is_built(
    say: Say, no_tools: None, monkeypatch: pytest.MonkeyPatch, host_generated: Path
) -> None:
    """Neither can anything be compiled nor is there anything to take elsewhere."""
    context = Context(Registry(host_generated, libraries=lambda module: []))

    def toolchain(gpu: Any = None) -> list[doctor.Finding]:
        return [each for each in doctor.diagnose(context, gpu) if each.area == "toolchain"]

    for gpu in (None, H200):  # no GPU, one that is described
        assert "no usable nvcc and no usable host compiler" in toolchain(gpu)[0].text
        assert toolchain(gpu)[0].level == doctor.PROBLEM
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    assert toolchain()[0].level == doctor.PROBLEM
    assert doctor.PROBLEM not in levels(say("toolchain")), "a kernel is built"


def test_gpus_and_their_driver(
    say: Say, gpu_here: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert texts(say("gpu")).splitlines() == [
        *["ok: NVIDIA H200, compute capability 9.0 (sm_90, Hopper), 132 SMs -> "] * 2,
        "ok: driver 580.159.04, for CUDA 13.0 -> ",
    ]
    folder = tmp_path / "cache/libraries/host_gemm" / KEY
    folder.mkdir(parents=True)
    (folder / "host_gemm.so").write_bytes(b"x")
    data = {
        "format": 2, "module": "host_gemm", "key": KEY, "machine": platform.machine(), "headers": {},
        "toolchain": {"nvcc": "13.0.88"}, "kernels": {}, "table": "",
        "library": {"sha256": "", "bytes": 1},
    }  # fmt: skip
    (folder / "library.json").write_text(json.dumps(data))
    assert levels(say("gpu")) == {doctor.OK}
    monkeypatch.setattr(machine, "driver_cuda", lambda: (12, 8))
    assert "problem: libraries here were built with CUDA 13.0.88, which needs a newer driver" in texts(
        say("gpu")
    )
    monkeypatch.setattr(machine, "driver_cuda", lambda: None)
    assert "warning: driver 580.159.04; libcuda.so.1" in texts(say("gpu"))
    monkeypatch.setattr(device, "present", lambda: None)
    assert "problem: driver 580.159.04, and torch is not there or finds no GPU" in texts(say("gpu"))


def test_no_gpu_is_no_problem(say: Say) -> None:
    assert levels(say("gpu")) == {doctor.WARNING}
    assert say("gpu", B200)[0].text.startswith("as if here were NVIDIA B200, compute capability 10.0")
    starts = "gemm 64x4096x4096 bf16 x bf16 -> bf16, layout tn (if an NV"
    assert any(finding.text.startswith(starts) for finding in say("would run"))


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="there is a driver here")  # noqa: PTH110
def test_the_driver_is_asked_for_real() -> None:
    assert machine.driver_cuda() is None


def test_the_cache(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert texts(say("cache")) == f"ok: {tmp_path}/cache: nothing is built yet -> "
    folder = Store().folder("libraries") / "host_gemm" / KEY
    folder.mkdir(parents=True)
    (folder / "library.json").write_text("{")
    (Store().folder("quarantine") / f"1-{KEY}").mkdir()
    text = texts(say("cache"))
    assert f"ok: {tmp_path}/cache: " in text
    assert "(libraries " in text
    assert f"warning: {folder}/library.json is damaged" in text
    assert "-> `tilewright build host_gemm` sets it aside and links another." in text
    assert "ok: 1 damaged entries were set aside" in text
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage(UNIT_DISK_BYTES - 1))
    assert "problem: 64.0 MiB are free there -> Free some" in texts(say("cache"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage(UNIT_DISK_BYTES + 1))
    assert "warning: 64.0 MiB are free there" in texts(say("cache"))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "problem: " in texts(say("cache"))
    assert ", cannot be written -> Set TILEWRIGHT_CACHE to a folder that can be written." in texts(
        say("cache")
    )
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    assert doctor.PROBLEM not in levels(say("cache"))


def test_a_cache_that_is_another_folder(say: Say, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/thesis.tex").touch()
    assert f"problem: {tmp_path}/cache is no build cache: it holds thesis.tex" in texts(say("cache"))


class _Usage:
    def __init__(self, free: int) -> None:
        self.free = free


def test_a_family_that_is_for_other_gpus_is_no_fault(
    say: Say, gpu_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that a user could mend: no spec brings its kernels to this GPU."""
    monkeypatch.setattr(
        "tilewright.declarations.catalog.targets_of",
        lambda name: ("sm_100a", "sm_110f") if name == "blockscaled_gemm" else ("sm_90a",),
    )
    text = "blockscaled_gemm: not for NVIDIA H200; its kernels are for sm_100a, sm_110f"
    finding = next(each for each in say("would run") if each.text.startswith("blockscaled_gemm"))
    assert (finding.level, finding.text, finding.mend) == (doctor.OK, text, "")


def test_kernels_of_a_family_that_is_not_installed(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    families = [name for name in catalog.names() if name != "quantize"]
    monkeypatch.setattr(catalog, "names", lambda: families)
    (finding,) = (each for each in say("modules") if each.level == doctor.WARNING)
    assert finding.text.startswith("host_quantize: ")
    assert finding.text.endswith("; their family quantize is not installed, so no op runs them")
    assert finding.mend == "Install the package that brings tilewright_families/quantize."


def test_modules_and_what_would_run(
    say: Say, host_generated: Path, gpu_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = texts(say("modules"))
    assert "ok: host_gemm: 13 kernels, 13 built, 13 run on NVIDIA H200 -> " in text
    assert "ok: host_blockscaled: 17 kernels, 17 built, 0 run on NVIDIA H200 -> " in text
    assert "problem: no kernel runs on NVIDIA Thor -> Add a spec with `arch: sm_110a`" in texts(
        say("modules", THOR)
    )

    def of(family: str, **more: Any) -> doctor.Finding:
        """What is said of the family's usual problem."""
        words = family_of(family).words
        problem = str(words.make(words.example, {}))
        return next(finding for finding in say("would run", **more) if finding.text.startswith(problem))

    families = {table.family for table in Registry(host_generated).tables.values()}
    assert len(say("would run")) == len(families)
    gemm, blockscaled = of("gemm"), of("blockscaled_gemm")
    assert of("quantize").text.startswith("quantize 64x4096 bf16 -> nvfp4")
    assert gemm.level == doctor.OK
    assert gemm.text.endswith(", by model, built")
    assert blockscaled.level == doctor.WARNING
    assert "no blockscaled_gemm kernel runs on NVIDIA H200" in blockscaled.text
    absent = ("host_bf16_tn", "host_bf16_tn_relu", "host_bf16_tn_streamk")
    assert "not built: the first call compiles it" in of("gemm", lacking=absent).text
    assert of("gemm", lacking=absent).mend.startswith("`tilewright build --filter host_bf16_tn")
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    assert of("gemm", lacking=absent).level == doctor.PROBLEM


def test_tuned_files_that_are_not_in_force(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    assert "ok: gemm: no tuned file; the cost model chooses" in texts(say("tuned", H200))
    path = paths.tuned_file(tmp_path / "tuned", H200.name, "gemm")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    text = texts(say("tuned", H200))
    assert f"ok: gemm: 0 problems by {path} -> " in text
    assert f"warning: {path} is damaged" in text
    assert path.read_text() == "{"
    expected = "ok: not checked: no GPU here, and each file is for one; --device names a GPU -> "
    assert texts(say("tuned")) == expected


def test_an_error_of_a_check_ends_no_other(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "generated" / "broken").mkdir(parents=True)
    (tmp_path / "generated" / "broken" / "table.json").write_text("{")
    findings = doctor.diagnose(Context(Registry(tmp_path / "generated")), H200)
    broken = [each for each in findings if "broken/table.json: not a dispatch table" in each.text]
    assert {each.area for each in broken} >= {"cache", "modules", "tuned", "would run"}
    assert {each.level for each in broken} == {doctor.PROBLEM}
    assert {"environment", "toolchain", "packages", "gpu"} <= {each.area for each in findings}
    assert [each.level for each in findings if each.area == "cache"] == [doctor.OK, doctor.OK, doctor.PROBLEM]


def test_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.invoke(["doctor", "--device", "h200", "--json"]) in (0, 1)  # a machine may lack a toolchain
    answer = json.loads(capsys.readouterr().out)
    assert sum(answer["counts"].values()) == len(answer["findings"])
    areas = list(dict.fromkeys(each["area"] for each in answer["findings"]))
    assert areas == ["environment", "toolchain", "packages", "gpu", "cache", "modules", "tuned", "would run"]
    monkeypatch.setattr("importlib.metadata.version", _absent)
    assert cli.invoke(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "  PROBLEM  apache-tvm-ffi is not installed\n           -> pip install" in said
    assert said.splitlines()[-1].endswith(" 1 problem")


def _absent(name: str) -> str:
    import importlib.metadata  # noqa: PLC0415

    raise importlib.metadata.PackageNotFoundError(name)


def test_with_the_package_alone(tmp_path: Path) -> None:
    """No PATH, no torch, no binding, no ninja, no project around."""
    for name in ("torch", "tvm_ffi", "ninja"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('there is none')\n")
    root = paths.include_dir().parents[1]
    environment = {
        "PATH": "/nowhere",
        "HOME": str(tmp_path),
        "PYTHONPATH": f"{tmp_path}:{root}/generator:{root}/runtime",
    }
    code = "from tilewright_generator.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    assert "PROBLEM  no ninja: neither the wheel nor on PATH" in done.stdout
    assert "would run" in done.stdout
