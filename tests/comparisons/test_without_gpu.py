"""What the GPU's tests say on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOPPER, BLACKWELL = "quantize_sm90_mxfp8_bf16_vector", "quantize_sm100f_mxfp8_bf16_vector"


def run(**environment: str) -> subprocess.CompletedProcess[str]:
    """One test of a kernel that a GPU has run, and of one that none has."""
    kernels = [f"tests/gpu/test_quantize_kernels.py::test_odd_shapes[{name}]" for name in (HOPPER, BLACKWELL)]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *kernels]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)


def test_skips_say_what_there_is_no_gpu_for() -> None:
    done = run(TILEWRIGHT_REQUIRE_GPU="0")
    assert done.returncode == 0, done.stdout
    assert "tests/gpu: no Blackwell has run" in done.stdout
    said = [line.rpartition(": ")[2] for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert sorted(said) == ["no GPU here", "no GPU here, and no Blackwell has run this kernel"]


def test_a_gpu_that_is_required_fails_them() -> None:
    done = run(TILEWRIGHT_REQUIRE_GPU="1")
    assert done.returncode == 1
    assert "no GPU here, and TILEWRIGHT_REQUIRE_GPU is set" in done.stdout
    assert "2 errors" in done.stdout
