"""`tilewright run gemm`."""

from __future__ import annotations

from typing import Any

import click

from tilewright_generator.families import running
from tilewright_generator.families.gemm.kernel import ACTIVATIONS


@click.command()
@running.shape_options
@click.option(
    "--dtype",
    default="bf16",
    show_default=True,
    metavar="TYPE",
    help="bf16, f16, fp8 (e4m3), e5m2, tf32, s8.",
)
@click.option("--out-dtype", metavar="TYPE", help="Type of D (default: the operands', FP8: bf16).")
@click.option("--layout", type=click.Choice(["tn", "tt", "nn", "nt"]), default="tn", show_default=True)
@click.option("--activation", type=click.Choice(list(ACTIVATIONS)), default="none")
@click.option("--fast-accum", is_flag=True, help="Allow fast accumulation of FP8.")
@running.run_options
def command(
    *,
    m: int,
    n: int,
    k: int,
    batch: int,
    dtype: str,
    out_dtype: str | None,
    layout: str,
    activation: str,
    fast_accum: bool,
    **options: Any,
) -> int:
    """D[m,n] = A[m,k] B[k,n] on random data.

    Exits 1 where the result is wrong, and where there is no GPU: then it says what would run on an H200.
    """
    from tilewright.benchmarking.problems import gemm_types  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.ops.gemm.problem import Problem  # noqa: PLC0415

    with running.usage_errors():
        a, b, d = gemm_types(dtype, out_dtype)
    problem = Problem(m, n, k, batch, a, b, d, layout, activation=activation, fast_accum=fast_accum)
    return running.run("gemm", problem, **options)
