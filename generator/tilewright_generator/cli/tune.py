"""`tilewright tune`: find the fastest tactics on this machine's GPUs, and keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilewright.declarations import catalog
from tilewright_generator.cli import answers, common, problem_options
from tilewright_generator.cli.output_files import force_option
from tilewright_generator.cli.ray_options import ray_options
from tilewright_generator.cli.tuning_run import Tune
from tilewright_generator.cli.tuning_settings import Settings

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("files", nargs=-1, type=_FILE, metavar="[FILE]...")
@problem_options.family_option(
    f"Default: {catalog.default_name()}; of --report and --merge, those of the files."
)
@problem_options.problem_options("Without it and without -s nothing is tuned.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of tuned files. Default: the first of $TILEWRIGHT_TUNED, or `tuned` in the cache. "
    "`--out tuned` writes the project's defaults.",
)
@click.option("--again", is_flag=True, help="Also tune problems that the file has an entry of.")
@click.option(
    "--only-new",
    is_flag=True,
    help="For problems that the file has an entry of: time only the kernels that were not there when it was "
    "written, beside the tuned one. Without sizes: all problems of the file.",
)
@click.option("--build", is_flag=True, help="First build the kernels that are not built.")
@click.option("--built-only", is_flag=True, help="Tune without the kernels that are not built.")
@click.option("--gpus", metavar="0,1", help="GPUs to tune on. Default: all of the same kind as the first.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    help="How many tactics of a problem are timed: those that the cost model puts first.",
)
@click.option(
    "--seconds",
    type=common.RealRange(min=0, min_open=True),
    help="Seconds for the first times of a problem's tactics, in the model's order. Tactics that are left "
    "after that are not timed.",
)
@click.option("--exhaustive", is_flag=True, help="Time every legal tactic in full.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random operands.")
@click.option("--dry-run", is_flag=True, help="Only say which problems and how many tactics; needs no GPU.")
@click.option("--device", type=common.DEVICE, help="With --dry-run or --report: this GPU.")
@click.option("--merge", is_flag=True, help="Put the entries of the FILEs into the tuned file; needs no GPU.")
@click.option(
    "--report",
    type=_FILE,
    help="Draw tuned times against the roofline: FILE.html, .png or .svg; an image's table goes to FILE.md.",
)
@click.option("--results", type=_FILE, help="Write what --json prints: all results, with GPU and settings.")
@force_option
@answers.json_option
@ray_options("Run as tasks of Ray, on every GPU of the cluster.")
@click.option("--root", metavar="DIRECTORY", help="Project whose kernels run (default: as `run`).")
def command(*, files: tuple[Path, ...], **options: Any) -> int:
    """Find the fastest tactic of each problem on this machine's GPUs, and keep it where ops look for it.

    The cost model leaves out tactics that are far slower than its first. The rest is timed in CUDA graphs
    with operands that L2 does not hold, the best ones longer and longer. The fastest is checked against the
    reference. Each result is written at once: after an interruption the same command goes on with what is
    left.

    With --report alone nothing is tuned: the FILEs (default: what ops would use) are drawn, without a GPU; an
    image holds one --family.

    Exits 1 where nothing can be tuned (no GPU, kernels that are not built, a file of another machine), where
    a problem has no result, and where a tactic computes something wrong.
    """
    settings = Settings(words=problem_options.given(options), **options)
    settings.check(files)
    return Tune(settings).run(files)
