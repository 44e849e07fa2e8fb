"""The words of `gemm` problems."""

from __future__ import annotations

from dataclasses import replace

from tilewright.declarations.vocabulary import MATRIX_EXTENTS, Choice, Extent, Fields, Flag, Types, Words
from tilewright.families.gemm.problem import (
    ACTIVATIONS,
    FP8,
    GATED,
    INTEGER_ACTIVATIONS,
    OUTPUTS,
    PAIRED_COLUMNS,
    Problem,
    addends,
)

_PAIRS = {a: {"a": a, "b": b} for a, b in OUTPUTS if b != "e5m2"}
_BY_E5M2 = {f"{a}x{b}": {"a": a, "b": b} for a, b in OUTPUTS if b == "e5m2"}


def _outputs(fields: Fields) -> tuple[str, ...]:
    return OUTPUTS[fields["a"], fields["b"]]


def _addends(fields: Fields) -> tuple[str, ...]:
    return addends(fields["a"], fields["d"])


def _activations(fields: Fields) -> tuple[str, ...]:
    return INTEGER_ACTIVATIONS if fields["d"] == "s32" else (*ACTIVATIONS, *GATED)


def _multiple_of_n(fields: Fields) -> int:
    return PAIRED_COLUMNS if fields.get("activation") in GATED else 1


def _extent(extent: Extent) -> Extent:
    """An extent of a matrix product, as `gemm` has it."""
    if extent.name != "n":
        return extent
    return replace(
        extent,
        help="Columns of B; of D too, or twice those of D if the activation is gated.",
        multiple=_multiple_of_n,
        because="a gated activation pairs groups of 8 columns",
    )


WORDS = Words(
    family="gemm",
    summary="D[m,n] = A[m,k] B[k,n].",
    problem=Problem,
    extents=tuple([_extent(extent) for extent in MATRIX_EXTENTS]),
    types=Types(
        option="--dtype",
        default="bf16",
        fields={
            **_PAIRS,
            **_BY_E5M2,
            "fp8": _PAIRS["e4m3"],
            "fp16": _PAIRS["f16"],
            "f32": _PAIRS["tf32"],
            "int8": _PAIRS["s8"],
        },
        help="Types of A and B: bf16 (default), f16, fp8 (e4m3), e5m2 (B is e4m3), e4m3xe5m2, e5m2xe5m2, "
        "tf32, s8.",
    ),
    others=(
        Choice("out_dtype", "Type of D. Default: the operands' (FP8: bf16).", _outputs, field="d"),
        Choice("layout", "Layouts of A and B: tn (default), tt, nn, nt.", ("tn", "tt", "nn", "nt")),
        Flag("c", "Add C."),
        Choice("c_dtype", "Type of C. Default: D's (FP8: bf16).", _addends, field="c_type", of="c"),
        Flag("bias", "Add a bias."),
        Choice(
            "bias_dtype",
            "Type of the bias. Default: D's (FP8: bf16).",
            _addends,
            field="bias_type",
            of="bias",
        ),
        Choice("activation", f"{', '.join((*ACTIVATIONS, *GATED))}.", _activations),
        Flag(
            "fast_accum",
            "Allow kernels that keep FP8 sums in the tensor core.",
            allowed=lambda fields: fields["a"] in FP8,
            because="only FP8 products have fast accumulation",
        ),
    ),
    default=True,
)
