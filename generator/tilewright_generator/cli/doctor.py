"""`tilewright doctor`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright_generator.cli import answers, common
from tilewright_generator.cli.verbosity import comment, quiet
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.tools.doctor import Finding

_MARKS = {"ok": "    ok", "warning": "  warn", "problem": "PROBLEM"}


@click.command("doctor")
@common.root_option
@click.option("--device", type=common.DEVICE, help="Answer as if this machine had this GPU.")
@click.option(
    "--device-self-test",
    "self_test",
    is_flag=True,
    help="Instead, run every tensor-core instruction that kernels use on this machine's GPU, and compare "
    "with the host. Compiles a small kernel for each the first time.",
)
@answers.json_option
def command(*, root: Path | None, device: str | None, self_test: bool, as_json: bool) -> int:
    """Say whether kernels can be built and run on this machine, and which would run.

    Looks at variables, toolchain, packages, GPU and driver, cache, modules and tuned files; changes nothing.
    Exits with 1 if there is a problem; each problem has its remedy below it.
    """
    if self_test and device:
        raise UsageError("--device-self-test runs on this machine's GPU; leave out --device")
    from tilewright.architectures.device import DESCRIBED  # noqa: PLC0415
    from tilewright.errors import ArgumentError, BundleError  # noqa: PLC0415
    from tilewright.tools import doctor  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright_generator.cli.running import context_in_force, context_of  # noqa: PLC0415

    if self_test:
        findings = doctor.device_self_test()
    else:
        folder = None if root is None else str(root)
        try:
            context = context_in_force(folder)
        except (ArgumentError, BundleError):  # a variable is wrong, which is a finding of `environment`
            context = context_of(folder)
        findings = doctor.diagnose(context, DESCRIBED[device] if device else None)
    counts = {level: sum(finding.level == level for finding in findings) for level in doctor.LEVELS}
    if as_json:
        answers.print_json({"counts": counts, "findings": [finding._asdict() for finding in findings]})
    else:
        _show([finding for finding in findings if finding.level != doctor.OK or not quiet()])
        worse = ", ".join(counted(counts[level], level) for level in ("warning", "problem"))
        comment(f"{counts['ok']} fine, {worse}")
    return 1 if counts[doctor.PROBLEM] else 0


def _show(findings: list[Finding]) -> None:
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            click.echo(area)
        first, *rest = finding.text.splitlines()
        click.echo(f"  {_MARKS[finding.level]:>7}  {first}")
        for line in [*rest, *(f"-> {line}" for line in finding.mend.splitlines())]:
            click.echo(f"           {line}")
