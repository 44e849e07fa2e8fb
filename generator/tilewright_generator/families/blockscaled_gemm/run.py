"""`tilewright run blockscaled_gemm`."""

from __future__ import annotations

from typing import Any

import click

from tilewright_generator.errors import UsageError
from tilewright_generator.families import running


@click.command()
@running.shape_options
@click.option(
    "--formats",
    default="nvfp4",
    show_default=True,
    metavar="A[xB]",
    help="Formats of A and B: nvfp4, mxfp4, mxfp8, mxfp8_e5m2, or two of them as mxfp8xmxfp4.",
)
@click.option(
    "--out-dtype",
    default="bf16",
    show_default=True,
    metavar="TYPE",
    help="Type of D: bf16, f16, f32, or nvfp4 or mxfp8, with scale factors.",
)
@running.run_options
def command(*, m: int, n: int, k: int, batch: int, formats: str, out_dtype: str, **options: Any) -> int:
    """D[m,n] = alpha (A SFA)[m,k] (B SFB)[k,n] on random data.

    Exits 1 where the result is wrong, and where there is no GPU: then it says what would run on an H200.
    """
    from tilewright.benchmarking.problems import blockscaled_types  # noqa: PLC0415
    from tilewright.ops.blockscaled_gemm.problem import BITS, Problem  # noqa: PLC0415

    with running.usage_errors():
        a, b, d = blockscaled_types(formats, out_dtype)
    for name in (a, b):
        if k * BITS[name] % 8:
            raise UsageError(f"-k {k}: {name} has two elements to a byte, so k is even")
    return running.run("blockscaled_gemm", Problem(m, n, k, batch, a, b, d), **options)
