"""`--json`, which every command takes: the answer for machines."""

from __future__ import annotations

import json

import click

JSON_HELP = "Print the answer as JSON; stdout has nothing else."
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)


def print_json(answer: object) -> None:
    """Prints an answer of `--json`: indented, paths as text."""
    click.echo(json.dumps(answer, indent=1, default=str))
