"""`tilewright run quantize`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from tilewright_generator.families import running

_SIZE = click.IntRange(min=1)


@click.command()
@click.option("-m", type=_SIZE, required=True, help="Rows of x.")
@click.option("-k", type=_SIZE, required=True, help="Columns of the data.")
@click.option("--groups", type=_SIZE, default=1, show_default=True, help="Matrices: stacked experts.")
@click.option(
    "--format",
    "formats",
    default="nvfp4",
    show_default=True,
    metavar="TYPE",
    help="nvfp4, mxfp4, mxfp8, mxfp8_e5m2, fp8_1x128, fp8_128x128.",
)
@click.option("--x", default="bf16", show_default=True, metavar="TYPE", help="bf16, f16, f32, or e4m3.")
@click.option(
    "--layout", metavar="LAYOUT", help="Of the scales: 128x4, 8x4, linear; m_major, row_major, packed."
)
@click.option("--fusion", type=click.Choice(["none", "silu_mul", "rmsnorm"]), default="none")
@click.option("--dequantize", is_flag=True, help="The way back, to a matrix of type x.")
@click.option("--fast", is_flag=True, help="Allow approximate divisions.")
@running.run_options
def command(
    *,
    m: int,
    k: int,
    groups: int,
    formats: str,
    x: str,
    layout: str | None,
    fusion: str,
    dequantize: bool,
    fast: bool,
    **options: Any,
) -> int:
    """Data and scales of x[m,k], of random numbers.

    Exits 1 where the result is wrong, and where there is no GPU: then it says what would run on an H200.
    """
    from tilewright.benchmarking.problems import Kind, make  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.benchmarking.sizes import Size  # noqa: PLC0415

    with running.usage_errors():
        (problem,) = make("quantize", Kind(formats, layout=layout, x=x), [Size(m, 0, k)])
    direction = "dequantize" if dequantize else "quantize"
    asked = replace(problem, groups=groups, fusion=fusion, direction=direction, exact=not fast)
    return running.run("quantize", asked, **options)
