"""The arguments that a kernel of `scale_columns` takes."""

from __future__ import annotations

from tilewright.declarations.codes import Codes
from tilewright.declarations.declaration import Code, Interface, Matrix, Packed, TacticStruct
from tilewright.families.scale_columns.problem import GROUPINGS
from tilewright.families.scale_columns.vocabulary import WORDS

GROUPING = Codes(
    "tilewright_scale_groups", GROUPINGS, text="What `groups` holds.",
    notes={
        "row_ends": "the row after each group's last; rows between groups become 0",
        "k_sizes": "elements of k of each group; each group starts a new word",
        "k_ends": "the element of k after each group's last",
    },
)  # fmt: skip
INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of a `scale_columns` kernel, in the caller's terms:

  out[line, m] = scales[m, line]
  out[line, m] = exponents of scales[m, 4*line], ..., scales[m, 4*line+3], the first one lowest (packed)

for all rows below m; rows from m to the next multiple of 4 are 0. The exponent of a float is the UE8M0 byte
of a power of two; the mantissa of other floats is lost.

A kernel that writes the 128x4 layout makes bytes for a matrix of `lines` rows, one for 32 of k:

  out[r, b] = the UE8M0 byte of scales[r, b * 32 / block], at the byte that this layout has for r and b

where `scales` holds floats, or words of four exponents (packed), and a row of it is one of the matrix, or 128
of them if m is ceil(lines / 128). `ld_out` is the columns of bytes with their padding. A float that is no
power of two becomes NaN, 0 the byte 0. Padding is 0, but that a scale of the last 128 of k has four bytes.
""",
    operands=(
        Matrix(
            "scales", "[m, columns], one of them contiguous",
            rows="m", columns="columns", batch="batch", single=True, alignment=4,
            pointer="const float*", type=lambda problem: "s32" if problem.words else "f32",
            contiguous=lambda problem: "columns" if problem.row_major else "rows",
        ),
        Packed(
            "groups", "one for each group, or null", type="s32", alignment=4,
            shape=lambda problem: (problem.group_count,),
        ),
        Matrix(
            "out", "[lines, m rounded up to 4]; floats, or words", pointer="void*",
            rows="out_rows", columns="leading", batch="batch", single=True, alignment=4, written=True,
            type=lambda problem: problem.out_type, raw=True,
        ),
    ),
    codes=(
        Code("lines", "of out"),
        Code(
            "packed", "whether a line holds four columns; for 128x4, whether an element of scales does",
            of=lambda problem: problem.packed or problem.words,
        ),
        Code("row_major", "whether columns of scales are contiguous"),
        Code("grouping", GROUPING),
        Code("group_count", "of groups"),
        Code("alignment", "groups begin at multiples of it"),
        Code("block", "elements of k of a scale"),
    ),
    tactic=TacticStruct(
        "tilewright_scale_columns_tactic",
        members=("sm_count",),
        text="Nothing is chosen: a thread block computes 64 rows and 32 columns.",
    ),
)  # fmt: skip
