"""`tilewright choices`: what selection chooses for the values of an extent, as a table or a C++ header."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright_generator.cli import answers, common, completion, running
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.cli.verbosity import note
from tilewright_generator.cpp_names import is_cpp_name
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.models.product import Product

_RANGE = re.compile(r"(\w+)=(\d+):(\d+)")
_INVARIANT = "--batch-invariant"
_MARK = re.compile(rb"\A// Written by `tilewright choices ")


@click.command("choices")
@click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="FAMILY [TYPES] EXTENT=FIRST:LAST NAME=VALUE...",
    shell_complete=completion.complete_problem("words"),
)
@click.option("--device", type=common.DEVICE, help="The GPU. Default: this machine's, else h200.")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write a C++ header.")
@click.option(_INVARIANT, is_flag=True, help="Choose the tactics of batch-invariant mode.")
@click.option("--names", is_flag=True, help="Print only the kernels' names, for `tilewright build --filter`.")
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1), default=1, help="Processes that choose. Default: 1."
)
@force_option
@common.root_option
@answers.json_option
def command(
    *,
    words: tuple[str, ...],
    device: str | None,
    output: Path | None,
    batch_invariant: bool,
    names: bool,
    jobs: int,
    force: bool,
    root: Path | None,
    as_json: bool,
) -> None:
    """Say which tactic selection chooses for each value of one extent, as `explain --problem` says for one
    problem.

    With -o the answer becomes a C++ header (tilewright/library.hpp), so that a program without Python takes
    the same kernels with the same tactics. It holds for this GPU, these tables and these tuned files.

    tilewright choices FAMILY bf16 m=1:256 n=6144 k=4096 --device h200 -o qkv_proj.hpp
    """
    from tilewright.architectures import device as devices  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.context import invariant_by_default  # noqa: PLC0415
    from tilewright.tools import choices  # noqa: PLC0415
    from tilewright.tools.bundling.closure import Setting, close  # noqa: PLC0415

    file = None if output is None else OutputFile(output, _MARK, force, "--output")
    if file is not None:
        file.check()
    product = _product(words, "choices" if output is None else output.stem)
    gpu = devices.DESCRIBED[device] if device else devices.present() or devices.H200
    context = running.context_of(None if root is None else str(root))
    setting = Setting(context.registry.folders, gpu, batch_invariant or invariant_by_default())
    (closure,) = close([product], setting, jobs=jobs)
    if closure.refusal:
        raise UsageError(f"{product.example}: {closure.refusal}")
    chosen = choices.ranges(closure, context.registry)
    if file is not None:
        file.write(choices.header(product, chosen, gpu, _command_line()))
        note(f"wrote {file.path}")
    modules: dict[str, list[str]] = {}
    for choice in chosen:
        kernels = modules.setdefault(choice.module, [])
        kernels += [] if choice.tactic.kernel in kernels else [choice.tactic.kernel]
    if as_json:
        entries = [choice._asdict() | {"tactic": str(choice.tactic)} for choice in chosen]
        answers.print_json({"device": gpu.name, "last": product.values[-1], "choices": entries})
    elif names:
        click.echo(",".join(kernel for kernels in modules.values() for kernel in kernels))
    else:
        for choice in chosen:
            click.echo(f"{product.extent} >= {choice.first}: {choice.tactic}")
        listed = " and ".join(
            f"{counted(len(kernels), 'kernel')} of {name}" for name, kernels in modules.items()
        )
        click.echo(f"{counted(len(chosen), 'range')} of {product.extent}, {listed}")


def _product(words: tuple[str, ...], name: str) -> Product:
    """The problem of these words, whose one range is the extent that varies."""
    from tilewright.models.product import Product  # noqa: PLC0415
    from tilewright.tools.benchmarking import problems  # noqa: PLC0415

    if not is_cpp_name(name):
        raise UsageError(f"--output {name}.hpp: expected a name that is an identifier of C++")
    matches: list[tuple[str, Any]] = [(word, _RANGE.fullmatch(word)) for word in words]
    varying = [match for _, match in matches if match]
    if len(varying) != 1:
        raise UsageError("expected one extent with a range, such as m=1:256")
    extent, first, last = varying[0].groups()
    if not 1 <= int(first) <= int(last):
        raise UsageError(f"{extent}={first}:{last}: expected FIRST:LAST, with a FIRST from 1 up to LAST")
    of_last = [f"{extent}={last}" if match else word for word, match in matches]
    with running.usage_errors():
        family, example = problems.of_words(of_last)
    if not hasattr(example, extent):
        raise UsageError(f"{extent} is no extent of {family}'s problems")
    return Product(name, family, family, example, range(int(first), int(last) + 1), extent)


def _command_line() -> str:
    """The command as it was given, with the output's name alone: a header must not hold a folder's name. A
    mode that a variable asks for becomes its option."""
    from tilewright.context import invariant_by_default  # noqa: PLC0415

    words = [Path(word).name if word.endswith(".hpp") else word for word in sys.argv[1:]]
    if invariant_by_default() and _INVARIANT not in words:
        words.append(_INVARIANT)
    return shlex.join(["tilewright", *words])
