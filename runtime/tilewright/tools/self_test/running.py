"""Builds the self-test kernels of a GPU, runs them, and says what is wrong."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tilewright.architectures import routing
from tilewright.compile.building import build
from tilewright.compile.progress import progress_for
from tilewright.declarations.arguments import Launchable
from tilewright.libraries import library
from tilewright.tools.self_test import forms, sources
from tilewright.tools.self_test.probes import probes_of

if TYPE_CHECKING:
    from tilewright.compile.report import BuildReport
    from tilewright.tools.self_test.forms import Form, Load

_ARGUMENTS = struct.Struct("<QQq")  # self_test/args.h
_INT32 = (0, 32, 1)  # DLPack's code, bits and lanes


class Outcome(NamedTuple):
    """What running a form showed: faults, none if it is right, or why it could not run."""

    form: Form | Load
    faults: list[str]
    obstacle: str = ""


def targets_on(capability: tuple[int, int]) -> list[str]:
    """The targets with self-tests that run on a GPU."""
    return [arch for arch in forms.ARCHITECTURES if routing.runs_on(arch, capability)]


def build_for(arch: str) -> BuildReport:
    """The self-test kernels of a target, compiled and checked for their instructions, in one library."""
    with tempfile.TemporaryDirectory(prefix="tilewright-self-test-") as folder:
        table = sources.write(arch, Path(folder))
        return build([table], progress=progress_for())


def run(arch: str) -> Iterator[Outcome]:
    """Runs all forms of a target on the current GPU. Raises what a build raises."""
    report = build_for(arch)
    failures = {unit.name: unit for unit in report.failures}
    loaded = {linked.path: library.load(linked.path) for linked in report.libraries}
    for form in forms.of_arch(arch):
        home = next((built for built in loaded.values() if form.kernel in built.kernels), None)
        if home is None:
            unit = failures.get(form.kernel)
            findings = [finding.message for finding in unit.findings] if unit else report.problems
            yield Outcome(form, [], "; ".join(findings) or "it was not built")
            continue
        probes = probes_of(form)
        try:
            results = _launch(home, form, probes.words())
        except RuntimeError as error:
            yield Outcome(form, [], str(error).splitlines()[0])
            continue
        yield Outcome(form, probes.faults(results))


def _launch(home: library.Library, form: Form | Load, words: Sequence[Sequence[int]]) -> list[list[int]]:
    """The words that a form's kernel answers to each probe."""
    import torch  # noqa: PLC0415 (a machine without a GPU need not have it)

    device = torch.cuda.current_device()
    flat = torch.tensor(words, dtype=torch.int64).to(torch.int32).to(f"cuda:{device}")
    results = torch.full((len(words), form.result_words), -1, dtype=torch.int32, device=flat.device)
    operands = (
        (0, 16, 0, -1, device, *_INT32, *_INT32, -1, flat.numel()),
        (8, 16, 1, -1, device, *_INT32, *_INT32, -1, results.numel()),
    )
    launcher = home.launcher(form.kernel, Launchable(_ARGUMENTS.pack(0, 0, len(words)), operands, ()))
    if status := launcher(flat, results, None):
        raise RuntimeError(f"internal error, please report: the launch of {form.kernel} returned {status}")
    torch.cuda.synchronize(device)
    return [[word & 0xFFFFFFFF for word in row] for row in results.cpu().tolist()]
