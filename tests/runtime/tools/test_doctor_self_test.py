"""`tilewright doctor --self-test`: GPUs that it does not run on, and its findings."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.architectures import device
from tilewright.architectures.device import H200
from tilewright.tools import doctor
from tilewright.tools.self_test import forms, running
from tilewright.tools.self_test.running import Outcome
from tilewright_generator import cli


def test_a_self_test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["doctor", "--device-self-test"]) == 1
    assert "no GPU was found, so no instruction was tested" in capsys.readouterr().out


def test_a_self_test_of_another_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["doctor", "--device-self-test", "--device", "b300"]) == 2
    assert "runs on this machine's GPU; leave out --device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gpu", "jit", "text"),
    [
        (
            H200._replace(name="NVIDIA A100", capability=(8, 0)),
            "1",
            "NVIDIA A100, compute capability 8.0 (sm_80), has no self-test; "
            "there are tests of sm_90a, sm_100f, sm_110f, sm_120f",
        ),
        (H200, "0", "TILEWRIGHT_JIT=0 forbids to compile the self-test's kernels"),
    ],
)
def test_a_self_test_that_cannot_run(monkeypatch: pytest.MonkeyPatch, gpu: Any, jit: str, text: str) -> None:
    monkeypatch.setattr(device, "present", lambda: gpu)
    monkeypatch.setenv("TILEWRIGHT_JIT", jit)
    (finding,) = doctor.device_self_test()
    assert (finding.level, finding.text) == (doctor.PROBLEM, text)


def test_the_findings_of_a_self_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding for each instruction: right, wrong with every fault, or why it did not run."""
    form, other, third, *_ = forms.of_arch("sm_120f")
    outcomes = [
        Outcome(form, []),
        Outcome(other, ["A, row 1, k 5: bit 3 is wrong"]),
        Outcome(third, [], "spilt"),
    ]
    monkeypatch.setattr(device, "present", lambda: device.DESCRIBED["gb10"])
    monkeypatch.setattr(running, "run", lambda arch: iter(outcomes if arch == "sm_120f" else ()))
    levels = [(finding.level, finding.text) for finding in doctor.device_self_test()]
    assert levels == [
        (doctor.OK, f"{form.name}: right"),
        (doctor.PROBLEM, f"{other.name}: wrong\nA, row 1, k 5: bit 3 is wrong"),
        (doctor.PROBLEM, f"{third.name}: not run: spilt"),
    ]
