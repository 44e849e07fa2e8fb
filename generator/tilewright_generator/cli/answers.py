"""`--json`, which every command takes: the answer for machines."""

from __future__ import annotations

import json

import click

JSON_HELP = "Print the answer as JSON; stdout has nothing else."
json_option = click.option("--json", "as_json", is_flag=True, help=JSON_HELP)


def json_text(answer: object) -> str:
    """An answer as JSON: indented, paths as text."""
    return json.dumps(answer, indent=1, default=str)


def print_json(answer: object) -> None:
    """Prints an answer of `--json`."""
    click.echo(json_text(answer))
