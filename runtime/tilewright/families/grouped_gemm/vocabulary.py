"""The words of `grouped_gemm` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Extent, Fields, Flag, Types, Words
from tilewright.families.grouped_gemm.problem import FP4_SCALES, GROUPINGS, LAYOUTS, OUTPUTS, SCALES, Problem

_PAIRS = {a if a == b else f"{a}x{b}": {"a": a, "b": b} for a, b in OUTPUTS}
_FP4 = "mxfp4"


def _outputs(fields: Fields) -> tuple[str, ...]:
    return OUTPUTS[fields["a"], fields["b"]]


def _scales(fields: Fields) -> tuple[str, ...]:
    if _FP4 in {fields["a"], fields["b"]}:
        return (FP4_SCALES,)
    return SCALES[1:] if fields["a"] == "e4m3" else SCALES[:1]


def _multiple_of_k(fields: Fields) -> int:
    return 2 if _FP4 in {fields["a"], fields["b"]} else 1


def _layouts(fields: Fields) -> tuple[str, ...]:
    return LAYOUTS if fields["a"] == "bf16" else LAYOUTS[:1]


def _groupings(fields: Fields) -> tuple[str, ...]:
    """BF16 products without groups are of the family `gemm`."""
    return GROUPINGS[1:] if fields["a"] == "bf16" else GROUPINGS


WORDS = Words(
    family="grouped_gemm",
    summary="Products with scale factors of 128 of k, of rows that may belong to groups.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of A and D: of all groups, or of each where each has its own.", usual=4096),
        Extent("n", "Columns of B and D.", usual=7168),
        Extent(
            "k",
            "Columns of A, rows of B.",
            usual=2048,
            multiple=_multiple_of_k,
            because="two elements of FP4 lie in a byte",
        ),
        Extent("groups", "Number of matrices of B.", usual=8, default=1),
        Extent("expected_m", "Rows of a group that count. Default: all.", usual=20, default=0, hint=True),
        Extent("row_alignment", "Groups begin at multiples of this.", usual=128, default=128, hint=True),
    ),
    types=Types(
        option="--dtype",
        default="fp8",
        fields={**_PAIRS, "fp8": _PAIRS["e4m3"]},
        help="Types of A and B: fp8 (e4m3, default), bf16, mxfp4, e4m3xmxfp4 or mxfp4xe4m3.",
    ),
    others=(
        Choice("out_dtype", "Type of D: bf16 (default) or f32.", _outputs, field="d"),
        Choice(
            "scales",
            "Scale factors. F32, of blocks of B: 128x128 (default) or 1x128. Packed, of A and B: 1x32_ue8m0 "
            "or 1x128_ue8m0.",
            _scales,
        ),
        Choice("grouping", f"Groups of rows: {', '.join(GROUPINGS)}; bf16: not none.", _groupings),
        Choice("layout", f"Layouts of A and B of bf16: {', '.join(LAYOUTS)}; default tn.", _layouts),
        Flag("c", "Add C."),
        Flag(
            "constant_b",
            "B is constant while kernels run: allow kernels that load it before the previous one has ended.",
            allowed=lambda fields: fields["grouping"] == "none",
            because="only products with grouping=none load B first",
        ),
    ),
)
