"""The check of `tilewright doctor --device-self-test`: each tensor-core instruction, run on this machine's
GPU."""

from __future__ import annotations

from tilewright.architectures import device as devices
from tilewright.architectures import routing
from tilewright.errors import TilewrightError
from tilewright.libraries.builds import jit_allowed
from tilewright.tools.doctor.findings import OK, PROBLEM, Findings
from tilewright.tools.self_test import forms, running

_WRONG = "Kernels that use it compute wrong results on this GPU. Please report the lines above."


def self_test() -> Findings:
    """Runs every instruction form of this machine's GPU, and yields a finding for each."""
    device = devices.present()
    if device is None:
        yield PROBLEM, "no GPU was found, so no instruction was tested", "Run this on a machine with a GPU."
        return
    targets = running.targets_on(device.capability)
    if not targets:
        gpu = f"{device.name}, {routing.describe(device.capability)},"
        yield PROBLEM, f"{gpu} has no self-test; there are tests of {', '.join(forms.ARCHITECTURES)}", ""
        return
    if not jit_allowed():
        mend = "Unset TILEWRIGHT_JIT for this command."
        yield PROBLEM, "TILEWRIGHT_JIT=0 forbids to compile the self-test's kernels", mend
        return
    for arch in targets:
        try:
            for outcome in running.run(arch):
                if outcome.obstacle:
                    yield PROBLEM, f"{outcome.form.name}: not run: {outcome.obstacle}", ""
                elif outcome.faults:
                    yield PROBLEM, "\n".join([f"{outcome.form.name}: wrong", *outcome.faults]), _WRONG
                else:
                    yield OK, f"{outcome.form.name}: right", ""
        except TilewrightError as error:
            yield PROBLEM, error.message, error.hint or ""
