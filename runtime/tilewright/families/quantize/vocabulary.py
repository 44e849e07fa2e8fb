"""The words of `quantize` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Choice, Extent, Fields, Flag, Types, Words
from tilewright.families.quantize.problem import (
    DIRECTIONS,
    FORMATS,
    FOUR_OVER_SIX,
    FUSIONS,
    LAYOUTS,
    Problem,
    inputs,
)

K_MULTIPLE = 16  # elements, that a thread takes: what every kernel asks of k; a last block may be shorter


def _global_scales(fields: Fields) -> tuple[str, ...]:
    return ("tensor", "row", "none") if fields["format"] == "nvfp4" else ("none",)


def _chooses(fields: Fields) -> bool:
    plain = fields["fusion"] == "none" and fields["direction"] == "quantize"
    return plain and fields["format"] == "nvfp4" and fields["x"] in ("bf16", "f16")


WORDS = Words(
    family="quantize",
    summary="Quantises x[m,k] into data and scales, or reads them back.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of x.", usual=64),
        Extent("k", "Columns of the data.", usual=4096, multiple=lambda _: K_MULTIPLE),
        Extent("groups", "Number of matrices: stacked experts.", usual=1, default=1),
    ),
    types=Types(
        option="--formats",
        default="nvfp4",
        fields={name: {"format": name} for name in FORMATS},
        help=f"Format of the data: {', '.join(FORMATS)}; default nvfp4.",
    ),
    others=(
        Choice(
            "x",
            "The type of x: bf16 (default), f16, f32; for nvfp4 also e4m3.",
            lambda fields: inputs(fields["format"]),
        ),
        Choice(
            "layout",
            "Layout of the scales: 128x4 (default), 8x4, linear. FP8: m_major (default), row_major, packed.",
            lambda fields: LAYOUTS[fields["format"]],
        ),
        Choice("fusion", f"{', '.join(FUSIONS)}.", FUSIONS),
        Choice(
            "direction",
            "Read data and scales back into a matrix of type x.",
            DIRECTIONS,
            flag="--dequantize",
            stands_for="dequantize",
        ),
        Choice(
            "global_scale",
            "Global scale of nvfp4: tensor (default), row (one for each), none.",
            _global_scales,
        ),
        Choice(
            "four_over_six",
            "Which error chooses between two scales of a NVFP4 block: none (default), mse, mae.",
            lambda fields: FOUR_OVER_SIX if _chooses(fields) else ("none",),
        ),
        Flag("exact", "Allow approximate divisions.", default=True, flag="--fast"),
    ),
    also_sizes=(("m", "n", "k"),),
)
