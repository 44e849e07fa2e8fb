"""`tilewright bundle`: the kernels that a model can choose on a GPU, built ahead of time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tilewright.models.schemes import SCHEMES
from tilewright.tools.bundling import MOST
from tilewright_generator.cli import answers, common, running
from tilewright_generator.cli.verbosity import note, quiet
from tilewright_generator.errors import DriftError, UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.compile.report import BuildReport
    from tilewright.context import Context
    from tilewright.models.product import Listing
    from tilewright.tools.bundling.closure import Setting
    from tilewright.tools.bundling.planning import Plan

_SHOWN = 10  # differences that are printed
_OF_A_MODEL = ("tp", "ep", "max_tokens", "max_sequences", "masked_rows", "dtype")
_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(min=1, max=MOST)


@click.command()
@click.option(
    "--model", type=_FILE, metavar="CONFIG.JSON", help="A model's config.json, as Hugging Face has it."
)
@click.option(
    "--problems",
    type=_FILE,
    metavar="FILE.YAML",
    help="A list of products, instead of --model or in addition.",
)
@click.option("--gpu", type=common.DEVICE, help="The GPU. Default: this machine's, else h200.")
@click.option("--tp", type=_COUNT, default=1, show_default=True, help="GPUs of a tensor-parallel group.")
@click.option("--ep", type=_COUNT, default=1, show_default=True, help="GPUs among which experts are divided.")
@click.option("--max-tokens", type=_COUNT, default=16384, show_default=True, help="Tokens of a forward pass.")
@click.option(
    "--max-sequences", type=_COUNT, default=1024, show_default=True, help="Rows of the product with lm_head."
)
@click.option(
    "--masked-rows",
    type=_COUNT,
    default=1024,
    show_default=True,
    help="Rows of an expert in masked products.",
)
@click.option(
    "--dtype",
    type=click.Choice(SCHEMES),
    help="The type of the linear layers. Default: the checkpoint's.",
)
@click.option("--batch-invariant", is_flag=True, help="Choose the tactics of batch-invariant mode.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="The bundle's folder.")
@click.option("--dry-run", is_flag=True, help="Only list the products, with their tactics for a few values.")
@click.option(
    "--no-build", is_flag=True, help="Choose kernels, write the list and the report; compile nothing."
)
@click.option(
    "--prove", is_flag=True, help="Afterwards choose again for every value, and compare with the bundle."
)
@click.option(
    "--measure",
    is_flag=True,
    help="Run each problem at a few values on this GPU, check the results, and write the times beside the "
    "model's. Without --model: the problems of the bundle in -o.",
)
@click.option("--jobs", "-j", type=_COUNT, help="Processes that choose, and compilers at once.")
@common.nvcc_option
@common.cutlass_option
@common.root_option
@answers.json_option
def command(**options: Any) -> None:
    """Build all kernels that a model's matrix products can choose on a GPU, and no others.

    The products are read from a config.json (Llama, Qwen, Gemma, Mixtral, DeepSeek-V3, gpt-oss) or a list.
    Selection is asked about every value of m up to the limit. The kernels that it chooses are linked into the
    folder, with a table of the kernel for each problem. Programs run from it, without a compiler, by
    `tilewright.bundle.load` or TILEWRIGHT_BUNDLE; for other problems they get an error that names the
    problem.
    """
    from tilewright.architectures import device  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.context import invariant_by_default  # noqa: PLC0415
    from tilewright.tools.bundling import making  # noqa: PLC0415
    from tilewright.tools.bundling.closure import Setting  # noqa: PLC0415

    output, root = options["output"], options["root"]
    if output is None and not options["dry_run"]:
        raise UsageError("-o: not given; it names the folder of the bundle, and --dry-run needs none")
    if options["dry_run"] and options["prove"]:
        raise UsageError("--prove compares the choices of a bundle, and --dry-run makes none")
    if options["model"] is None:
        _check_without_model(click.get_current_context())
    if options["measure"]:
        _check_measurable(options)
        if options["model"] is None and options["problems"] is None:
            _measure(output, options["as_json"])
            return
    if output is not None:
        making.check_folder(output)
    listing = _listing(options)
    gpu = device.DESCRIBED[options["gpu"]] if options["gpu"] else device.present() or device.H200
    context = running.context_of(None if root is None else str(root))
    setting = Setting(context.registry.folders, gpu, options["batch_invariant"] or invariant_by_default())
    if options["dry_run"]:
        _show_listing(listing, setting, options["as_json"])
        return
    _make(listing, setting, context, output, options)


def _check_without_model(context: click.Context) -> None:
    """Raises UsageError for an option that would have no effect."""
    for name in _OF_A_MODEL:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"--{name.replace('_', '-')} is about a --model, and none is given")


def _listing(options: dict[str, Any]) -> Listing:
    """The products that the options name."""
    from tilewright.models import configuration, forward  # noqa: PLC0415
    from tilewright.tools.bundling import problems_file  # noqa: PLC0415

    if options["model"] is None and options["problems"] is None:
        raise UsageError("no problems: expected --model config.json, or a list of --problems")
    listing: Listing | None = None
    if options["model"] is not None:
        serving = forward.Serving(**{name: options[name] for name in _OF_A_MODEL})
        with running.usage_errors(lambda argument: f"--{argument}"):
            listing = forward.products(configuration.read(options["model"]), serving)
    if options["problems"] is not None:
        more = problems_file.read(options["problems"])
        if listing is None:
            return more
        listing.products += more.products
        listing.title = f"{listing.title}, and {more.title}"
    assert listing is not None
    return listing


def _show_listing(listing: Listing, setting: Setting, as_json: bool) -> None:
    from tilewright.context import Context  # noqa: PLC0415
    from tilewright.libraries.registry import Registry  # noqa: PLC0415
    from tilewright.tools.bundling import planning, report  # noqa: PLC0415

    context = Context(Registry(setting.folders), batch_invariant=setting.batch_invariant)
    plan = planning.sketch(listing, setting, report.POINTS)
    answer = report.as_json(plan, context, seconds=0)
    if as_json:
        answers.print_json(answer)
        return
    for line in report.listing_lines(answer):
        click.echo(line)
    note("a sketch: tactics of a few values; without --dry-run, every value is asked for")


def _make(
    listing: Listing, setting: Setting, context: Context, output: Path, options: dict[str, Any]
) -> None:
    from tilewright.compile.jobs import available_cores  # noqa: PLC0415
    from tilewright.tools.bundling import making, planning, report  # noqa: PLC0415

    jobs = options["jobs"] or available_cores()
    started = time.monotonic()
    plan = planning.plan(listing, setting, jobs=jobs, progress=note)
    seconds = time.monotonic() - started
    if not plan.problems:
        raise UsageError(f"{listing.title}: no kernel computes any of its products; --dry-run says why")
    built = None if options["no_build"] else _build(plan, context, output, options)
    size = making.library_bytes(output) if built else 0
    answer = report.as_json(plan, context, seconds=seconds, built=built, library_bytes=size)
    making.write(plan, context.registry, output, [report.markdown(answer), answers.json_text(answer)])
    if not options["as_json"]:
        for line in report.summary_lines(answer):
            click.echo(line)
    elif not options["measure"]:
        answers.print_json(answer)
    note(f"wrote {output}")
    if options["prove"]:
        _prove(plan, setting, context, jobs)
    if options["measure"]:
        _measure(output, options["as_json"])


def _build(plan: Plan, context: Context, output: Path, options: dict[str, Any]) -> BuildReport:
    from tilewright.compile.compilers import toolchain_for  # noqa: PLC0415
    from tilewright.compile.progress import Progress, progress_for  # noqa: PLC0415
    from tilewright.tools.bundling import making  # noqa: PLC0415

    tables = making.tables_of(plan, context.registry)
    built = making.build_kernels(
        plan,
        context.registry,
        output,
        toolchain=toolchain_for(tables, nvcc=options["nvcc"], cutlass=options["cutlass"]),
        jobs=options["jobs"],
        progress=Progress() if quiet() else progress_for(),
    )
    if not built.ok:
        raise DriftError(built.explain_failures())
    return built


def _prove(plan: Plan, setting: Setting, context: Context, jobs: int) -> None:
    from tilewright.tools.bundling import proof  # noqa: PLC0415

    started = time.monotonic()
    content = plan.manifest(context.registry)
    differences = list(proof.differences(content, setting, jobs=jobs, progress=note))
    for difference in differences[:_SHOWN]:
        click.echo(f"{difference.problem}: {difference.bundle} in the bundle, {difference.library} chosen")
    if differences:
        raise DriftError(f"the library chooses otherwise for {counted(len(differences), 'value')}")
    seconds = time.monotonic() - started
    note(f"proved: the library chooses the bundle's tactic for every value ({seconds:.0f} s)")


def _check_measurable(options: dict[str, Any]) -> None:
    """Raises UsageError for options that leave nothing to measure, DriftError where nothing can be run."""
    for name in ("dry_run", "no_build"):
        if options[name]:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"--measure runs the kernels of a bundle, and {option} builds none")
    if lacking := running.missing():
        raise DriftError(f"--measure runs the bundle on its GPU: {lacking}")


def _measure(folder: Path, as_json: bool) -> None:
    from tilewright import bundle  # noqa: PLC0415
    from tilewright.base import writing  # noqa: PLC0415
    from tilewright.tools.bundling import measuring  # noqa: PLC0415

    loaded = bundle.load(folder)
    started = time.monotonic()
    answer = measuring.as_json(loaded, list(measuring.runs(loaded, note)))
    text = measuring.markdown(answer)
    for name, content in zip(measuring.NAMES, (text, answers.json_text(answer)), strict=True):
        writing.write(folder / name, content)
    if as_json:
        answers.print_json(answer)
    else:
        click.echo(text, nl=False)
    count, seconds = len(answer["runs"]), time.monotonic() - started
    note(f"ran {counted(count, 'product')}, all results right ({seconds:.0f} s)")
    note(f"wrote {folder / measuring.NAMES[0]}")
