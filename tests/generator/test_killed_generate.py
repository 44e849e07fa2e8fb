"""A `generate` that is killed before any of its steps on the disk: the next one, with other inputs, needs no
`--force`, keeps real edits, and leaves what a clean run makes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import faults
import pytest
import tiny_family
from command_line import Command

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
Files = dict[str, bytes]
SMALL = tiny_family.SPEC
# What a spec may become between a kill and the next run; None takes it away.
OTHER_INPUTS: dict[str, str | None] = {
    "the same": SMALL.replace("[64x64x64,", "[32x64x64, 64x64x64,"),
    "as before": SMALL,
    "fewer kernels": SMALL.replace("fast: [false, true]", "fast: true"),
    "other kernels": SMALL.replace("[64x64x64, 128x128x64]", "[16x64x64, 64x64x64]"),
    "no spec": None,
}


def files(folder: Path) -> Files:
    """All that is there, hidden files too."""
    actual = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in actual}


def change(project: Path, inputs: str | None) -> None:
    """Another spec, and another template, so that every file that is left changes."""
    spec, template = project / "specs/small.yaml", project / "templates/tiny/kernel.cu.j2"
    if inputs is None:
        spec.unlink(missing_ok=True)
    else:
        spec.write_text(inputs)
    template.write_text(tiny_family.TEMPLATE + f"// {len(inputs or '')}\n")


@pytest.fixture
def start(project: Path, tilewright: Command) -> Callable[[], None]:
    """Puts the generated files of two modules back to what they were at first."""
    (project / "specs/other.yaml").write_text(SMALL.replace("bf16", "f16"))
    assert tilewright("generate", "--out", project / "first").code == 0

    def restore() -> None:
        shutil.rmtree(project / "generated", ignore_errors=True)
        shutil.copytree(project / "first", project / "generated")

    return restore


def clean(project: Path, tilewright: Command) -> Files:
    """What a run makes from nothing of the inputs as they are."""
    out = project / "clean"
    shutil.rmtree(out, ignore_errors=True)
    assert tilewright("generate", "--out", out).code == 0
    return files(out)


def kill(project: Path, step: int, number: signal.Signals = signal.SIGKILL) -> tuple[int, str]:
    """The exit code of a run to which the signal came before this step, and what it said."""
    fault = lambda: os.kill(os.getpid(), number)  # noqa: E731
    return faults.Forked(["generate"], project / "generated", step, fault).end()


@pytest.mark.parametrize("inputs", OTHER_INPUTS)
def test_whatever_step_it_is_killed_at_another_run_with_other_inputs_recovers(
    project: Path, tilewright: Command, start: Callable[[], None], inputs: str
) -> None:
    change(project, OTHER_INPUTS[inputs])
    expected = clean(project, tilewright)
    kills = 0
    while True:
        start()
        change(project, OTHER_INPUTS["the same"])
        code, said = kill(project, kills)
        if code == 0:  # it has fewer steps
            break
        assert code == -signal.SIGKILL, said
        kills += 1
        change(project, OTHER_INPUTS[inputs])
        actual = tilewright("generate")
        assert actual.code == 0, f"killed at step {kills}: {actual.err}"
        assert files(project / "generated") == expected, f"killed at step {kills}"
    assert kills > 2 * 16, "a file takes two steps, to open it and to move it; both modules have changed"


def test_one_killed_run_after_another_each_with_other_inputs(
    project: Path, tilewright: Command, start: Callable[[], None]
) -> None:
    start()
    for number, step in enumerate((9, 3, 21, 14, 6, 18, 11, 25, 4, 30, 7, 16)):
        inputs = [*OTHER_INPUTS.values()][number % len(OTHER_INPUTS)]
        change(project, inputs)
        code, said = kill(project, step)
        assert code in (0, -signal.SIGKILL), said
    change(project, OTHER_INPUTS["other kernels"])
    assert tilewright("generate").code == 0
    assert files(project / "generated") == clean(project, tilewright)


def test_a_real_edit_is_kept_through_kills(
    project: Path, tilewright: Command, start: Callable[[], None]
) -> None:
    """It is as well known afterwards as before: neither replaced, nor lost by a manifest that is written."""
    name = "small/tiny_bf16_64x64x64_1x1_fast.cu"
    change(project, OTHER_INPUTS["fewer kernels"])
    expected = clean(project, tilewright)
    step = 0
    while True:
        start()
        edited = project / "generated" / name
        edited.write_text("// by hand\n")
        change(project, OTHER_INPUTS["the same"])
        if kill(project, step)[0] == 1:  # it has fewer steps, and says that a file was kept
            break
        step += 1
        change(project, OTHER_INPUTS["fewer kernels"])
        actual = tilewright("generate")
        assert (actual.code, edited.read_text()) == (1, "// by hand\n")
        assert f"kept generated/{name}: edited by hand since it was generated\n" in actual.err
        assert tilewright("generate", "--force").code == 0
        assert files(project / "generated") == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_neither_the_lock_nor_half_a_file(
    project: Path, tilewright: Command, start: Callable[[], None], number: signal.Signals
) -> None:
    change(project, OTHER_INPUTS["the same"])
    step = 0
    while True:
        start()
        code, said = kill(project, step, number)
        assert not [name for name in files(project / "generated") if Path(name).name.startswith(".")]
        if code == 0:  # it has fewer steps
            break
        assert code == 128 + number, said
        step += 1
    assert step > 2 * 16
