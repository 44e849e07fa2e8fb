"""`tilewright run <family> ...`: run a kernel on this machine's GPU, checked and timed beside its peer."""

from __future__ import annotations

from typing import Any

import click

from tilewright.base.spelling import cut
from tilewright.declarations import catalog
from tilewright_generator.cli import answers, completion, problem_options, running, verbosity

_OPTIONS = (
    click.Option(
        ["--kernel"],
        metavar="NAME",
        shell_complete=completion.complete(completion.kernels),
        help="The kernel, or tactic (NAME@splits=4), to run. Default: the selected one.",
    ),
    click.Option(
        ["--iters"], type=click.IntRange(min=1), default=15, show_default=True, help="Replays of the graph."
    ),
    click.Option(
        ["--root"],
        metavar="DIRECTORY",
        help="The project whose kernels run. Default: the nearest, else tilewright's.",
    ),
    click.Option(["--json", "as_json"], is_flag=True, help=answers.JSON_HELP),
)


class _Families(click.Group):
    """A command for each family, made of its words."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return catalog.names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return verbosity.add_options(_command_of(cmd_name)) if cmd_name in catalog.names() else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            words = catalog.words_of(catalog.default_name())
            example = " ".join(f"{words.option(name)} {value}" for name, value in words.example.items())
            command = f"{ctx.command_path} {words.family} {example}"
            ctx.fail(f"{error.option_name} before a family; for example: {command}")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in catalog.names():
            hint = catalog.meant(args[0], catalog.names()) or f"; there are: {', '.join(catalog.names())}"
            ctx.fail(f"no family {cut(args[0])!r}{hint}")
        return super().resolve_command(ctx, args)


class _OfFamily(click.Command):
    """The command of a family: it names all options that are missing, with an example."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = [*args]
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            values, _, _ = self.make_parser(ctx).parse_args(words)
            required = [param for param in self.params if param.required]
            missing = ", ".join(param.opts[0] for param in required if values.get(param.name or "") is None)
            example = catalog.words_of(self.name or "").example
            options = " ".join(
                f"{param.opts[0]} {value}" for param, value in zip(required, example.values(), strict=True)
            )
            ctx.fail(f"missing options {missing}; for example: {ctx.command_path} {options}")


@click.group(cls=_Families)
def command() -> None:
    """Run a kernel on this machine's GPU: the selected one or --kernel. Build it if needed, check its result
    against float64, and time it beside torch's op with a cold L2."""


def _command_of(family: str) -> click.Command:
    words = catalog.words_of(family)

    def run(**options: Any) -> int:
        values = problem_options.given(options)
        with running.usage_errors(words.option):
            problem = words.make({}, values)
        return running.run(family, problem, **options)

    return _OfFamily(
        family,
        callback=run,
        params=[*problem_options.options_of(words), *_OPTIONS],
        help=f"{words.summary} On random data.\n\nExits 1 if the result is wrong, or if there is no GPU: "
        "then it says what would run on an H200.",
        short_help=words.summary,
    )
