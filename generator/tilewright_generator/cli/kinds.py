"""The options that say which problems are measured: `bench compare` and `tune` have the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

FAMILIES = ("gemm", "blockscaled_gemm")  # of tilewright.benchmarking.problems

Command = TypeVar("Command", bound=Callable[..., Any])


def problem_options(default: str) -> Callable[[Command], Command]:
    """Types, layout and sizes; `default` says what is taken without sizes."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "-s", "--size", "given", multiple=True, metavar="MxNxK", help="This size; may be repeated."
            ),
            click.option(
                "--sizes",
                metavar="LIST|FILE",
                help="small (m 1 to 64), medium (m 128 to 512), large (m 1024 to 4096), all, or a YAML file: "
                "a list of MxNxK or {m: [...], n: ..., k: ...}, or {m: [...], layers: [{n: ..., k: ...}], "
                f"squares: [...]}}. {default}",
            ),
            click.option(
                "--fast-accum", is_flag=True, help="Allow kernels that sum FP8 in the tensor core alone."
            ),
            click.option(
                "--layout",
                type=click.Choice(["tn", "tt", "nn", "nt"]),
                help="Of gemm's A and B. Default: tn.",
            ),
            click.option(
                "--out-dtype", metavar="TYPE", help="Of D. Default: bf16, or what the formats give."
            ),
            click.option(
                "--formats",
                "--dtype",
                "formats",
                default="",
                metavar="TYPE",
                help="Of A and B. gemm: bf16 (default), f16, fp8, e5m2, tf32, s8. blockscaled_gemm: nvfp4 "
                "(default), mxfp4, mxfp8, mxfp8_e5m2, or two, as mxfp8xmxfp4.",
            ),
        ):
            command = option(command)
        return command

    return add
