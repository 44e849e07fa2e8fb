"""The command line: `tilewright <command>`. Each command is a module here, imported when it is called."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import click

from tilewright.base.spelling import cut, did_you_mean
from tilewright_generator import __version__
from tilewright_generator.cli import failures, verbosity

# What `tilewright --help` says of each command; `command` of the module `module_of` is it.
COMMANDS = {
    "generate": "Write the sources and dispatch tables that the specs name.",
    "check": "Compare the generated files with the specs; write nothing.",
    "list": "List the kernels that the specs name: which are built, tuned, compiled, run.",
    "explain": "Say where a kernel comes from, or why there is none; what computes a problem.",
    "schema": "Write JSON Schemas, with which editors complete specs.",
    "build": "Compile generated kernels into libraries.",
    "wheel": "Pack built kernels into a wheel, which needs no compiler.",
    "bundle": "Build all kernels that a model can choose on a GPU, and prove it.",
    "choices": "Say what selection chooses for all values of an extent; write it as C++.",
    "config": "Print options for C++ programs that use kernels without Python.",
    "status": "Count the kernels that were compiled, run and hammered, and what is stale.",
    "cache": "Say how large the build cache is; remove what nothing needs.",
    "toolchain": "List the releases of nvcc and CUTLASS here, and what each would add.",
    "doctor": "Say whether kernels can be built and run on this machine.",
    "run": "Run a kernel on this machine's GPU.",
    "tune": "Find the fastest tactics on this machine's GPUs, and keep them.",
    "init": "Start a repository of kernels: a spec, a check for CI, a hook.",
    "new-family": "Write a family of kernels of your own, complete and small.",
    "report": "Write what the committed records say, as a page or a chart.",
    "bench": "Measure groups of kernels side by side on this machine's GPU.",
}


def module_of(command: str) -> str:
    """The name of a command's module in this package."""
    return command.replace("-", "_")


class _Commands(click.Group):
    """Finds commands in the table above, so that `--help` imports none of them."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        with failures.closed_pipes():  # --help prints here
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with failures.closed_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]  # `list` is a module of this package by then

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"{__name__}.{module_of(cmd_name)}").command
        return verbosity.add_options(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS) or f"; there are: {', '.join(COMMANDS)}"
            ctx.fail(f"no command {cut(args[0])!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


@verbosity.add_options
@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tilewright")
def tilewright() -> None:
    """Write CUDA kernels and dispatch tables from YAML specs; build, tune and run them.

    Exit codes: 0 fine, 1 drift or a failed check, 2 usage or a wrong spec, 3 an internal error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code. `TILEWRIGHT_DEBUG=1` shows a traceback of every error."""
    # 20,000 kernels are many objects without cycles: looking for some takes a fifth of a run.
    gc.set_threshold(100_000)
    sys.exit(invoke(arguments))


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Run a command and answer its exit code: what it returns, or that of the error it ends with."""
    debug = os.environ.get("TILEWRIGHT_DEBUG") == "1"
    if failures.COMPLETE in os.environ:
        from tilewright_generator.cli import completion  # noqa: PLC0415 (a shell asks for it)

        completion.set_up()
    try:
        with verbosity.restored():
            answer = tilewright.main(arguments, prog_name="tilewright", standalone_mode=False)
        return answer if isinstance(answer, int) else 0
    except click.Abort:
        return failures.after(partial(click.echo, "interrupted", err=True), 130)
    except click.ClickException as error:
        if debug:
            raise
        return failures.after(error.show, error.exit_code)
    except failures.PipeClosedError:
        return failures.PIPE_CLOSED
    except OSError as error:
        if debug:
            raise
        return failures.show(failures.of_system(error))
    except Exception as error:
        if debug:
            raise
        return failures.show(failures.of_any(error))
