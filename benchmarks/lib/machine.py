"""What a recorded benchmark says of where it ran: nothing but what its numbers depend on."""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Variables on which the runtime's choice of a tactic depends.
CHOOSING = ("TILEWRIGHT_TUNED", "TILEWRIGHT_JIT")
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Run:
    """One finished process, with all that it started. `memory` is of the largest of them, in bytes."""

    seconds: float
    cpu_seconds: float
    memory: int
    output: str


def run(command: Sequence[str], cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Run:
    """Runs a command and measures it. Raises RuntimeError, with its output, where it fails."""
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exits {process.returncode}:\n{output[-4000:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, _bytes(usage), output)


def _bytes(usage: resource.struct_rusage) -> int:
    return usage.ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def describe(*distributions: str) -> dict[str, str | int]:
    """Date, cores, Python, and the versions of the distributions that are installed."""
    description: dict[str, str | int] = {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "python": platform.python_version(),
    }
    for name in distributions:
        try:
            description[name] = version(name)
        except PackageNotFoundError:
            description[name] = "not installed"
    return description


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def require_gpu() -> None:
    """Ends the program with a message if torch finds no GPU."""
    import torch  # noqa: PLC0415 (other records need none)

    if not torch.cuda.is_available():
        raise SystemExit("this program needs a GPU, and torch finds none")


def gpu_run(module: str) -> dict[str, str]:
    """What a record of this run of `python -m MODULE` says of the GPU, its software, and the command."""
    import torch  # noqa: PLC0415 (other records need none)

    from tilewright.architectures.device import driver  # noqa: PLC0415 (likewise)

    environment = [f"{name}={os.environ[name]}" for name in CHOOSING if name in os.environ]
    return {
        "command": " ".join([*environment, f"python -m {module}", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "driver": str(driver()),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "clocks": clocks(),
    }


def clocks() -> str:
    """The clocks of SMs and memory, the power and the temperature of the GPU at this moment."""
    query = "--query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu"
    index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    command = ["nvidia-smi", query, "--format=csv,noheader", f"--id={index}"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def write_page(output: Path, page: str) -> None:
    """Writes OUTPUT.md."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".md").write_text(page, encoding="utf-8", newline="\n")


def write_rows(output: Path, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes OUTPUT.json, for programs: an object with `head` and `rows`, each row in a line."""
    output.parent.mkdir(parents=True, exist_ok=True)
    fields = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    lines = ",\n".join(map(json.dumps, rows))
    text = "{" + ",\n".join([*fields, f'"rows": [\n{lines}\n]']) + "}\n"
    output.with_suffix(".json").write_text(text, encoding="utf-8", newline="\n")


def record(name: str, text: str) -> None:
    """Writes a file of benchmarks/results/."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(text, encoding="utf-8", newline="\n")
