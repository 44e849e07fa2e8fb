"""The options that say which problems are measured: `bench compare` and `tune` have the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from tilewright.benchmarking.problems import Kind

FAMILIES = ("gemm", "blockscaled_gemm", "quantize")  # of tilewright.benchmarking.problems

Command = TypeVar("Command", bound=Callable[..., Any])


class Given(Protocol):
    """What the options below were given, as a command's settings hold it."""

    @property
    def formats(self) -> str: ...
    @property
    def out_dtype(self) -> str | None: ...
    @property
    def layout(self) -> str | None: ...
    @property
    def x(self) -> str | None: ...
    @property
    def fast_accum(self) -> bool: ...


def kind_of(given: Given) -> Kind:
    """What is computed, whatever the extents."""
    from tilewright.benchmarking.problems import Kind  # noqa: PLC0415 (`--help` needs no runtime)

    return Kind(given.formats, given.out_dtype, given.layout, given.x, given.fast_accum)


def problem_options(default: str) -> Callable[[Command], Command]:
    """Types, layout and sizes; `default` says what is taken without sizes."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "-s",
                "--size",
                "given",
                multiple=True,
                metavar="MxNxK",
                help="This size, MxK of quantize; may be repeated.",
            ),
            click.option(
                "--sizes",
                metavar="LIST|FILE",
                help="small (m 1 to 64), medium (m 128 to 512), large (m 1024 to 4096), all, or a YAML file: "
                "a list of MxNxK or {m: [...], n: ..., k: ...}, or {m: [...], layers: [{n: ..., k: ...}], "
                f"squares: [...]}}, or {{m: [...], k: [...]}}. quantize takes A[m,k] of a product. {default}",
            ),
            click.option(
                "--fast-accum", is_flag=True, help="Allow kernels that sum FP8 in the tensor core alone."
            ),
            click.option(
                "--layout",
                metavar="LAYOUT",
                help="Of gemm's A and B: tn (default), tt, nn, nt. Of quantize's scales: 128x4 (default), "
                "8x4, linear; of FP8's m_major (default), row_major, packed.",
            ),
            click.option("--x", metavar="TYPE", help="What quantize takes: bf16 (default), f16, f32, e4m3."),
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
                "(default), mxfp4, mxfp8, mxfp8_e5m2, or two, as mxfp8xmxfp4. What quantize gives: nvfp4 "
                "(default), mxfp4, mxfp8, mxfp8_e5m2, fp8_1x128, fp8_128x128.",
            ),
        ):
            command = option(command)
        return command

    return add
