"""What `tilewright doctor` and `list` say where there is a GPU."""

from __future__ import annotations

import json
import re

import pytest
import torch

from tilewright.architectures import device
from tilewright.context import Context
from tilewright.tools import doctor
from tilewright.tools.doctor import machine
from tilewright.tools.self_test import forms, running
from tilewright_generator import cli

pytestmark = pytest.mark.gpu


def test_the_gpu_and_its_driver_are_found() -> None:
    release = machine.driver_cuda()
    assert release is not None
    cuda = torch.version.cuda
    assert release[0] >= int(cuda.partition(".")[0])  # else torch would not run here
    actual = [each for each in doctor.diagnose(Context()) if each.area == "gpu"]
    assert [each.level for each in actual] == [doctor.OK] * len(actual), actual
    gpus = [each.text for each in actual if " SMs" in each.text]
    assert len(gpus) == torch.cuda.device_count()
    assert gpus[0].startswith(torch.cuda.get_device_name(0))
    assert re.fullmatch(r"driver [\d.]+, for CUDA \d+\.\d+", actual[-1].text)


def test_the_list_is_of_this_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    actual = device.present()
    assert actual is not None
    assert cli.invoke(["list"]) == 0
    assert f"t tuned for {actual.name}" in capsys.readouterr().out
    assert cli.invoke(["list", "--json", "--built"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows, "kernels are built before tests of the GPU run"
    assert all(type(row["tuned"]) is int for row in rows)


def test_every_instruction_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """The self-test of this GPU's tensor cores, whose kernels are compiled for it."""
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    actual = device.present()
    assert actual is not None
    if not running.targets_on(actual.capability):
        pytest.skip(f"{actual.name} has no self-test")
    findings = doctor.device_self_test()
    assert [finding for finding in findings if finding.level != doctor.OK] == []
    assert len(findings) == sum(len(forms.of_arch(arch)) for arch in running.targets_on(actual.capability))
