"""The arguments of `mqa_logits` kernels: for ragged keys, for pages, and for making a schedule."""

from typing import Any

from tilewright.declarations.declaration import Code, Combinations, Interface, Matrix, Packed, TacticStruct
from tilewright.families.mqa_logits.problem import OUTPUTS
from tilewright.families.mqa_logits.vocabulary import WORDS
from tilewright.formats.types import TMA_BYTES as TMA

_INT: dict[str, Any] = {"type": "s32", "alignment": 4}

INTERFACE = Interface(
    words=WORDS,
    text="""
Arguments of an `mqa_logits` kernel, in the caller's terms:

  out[i,j] = scale[j] * sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]) where query i looks at key j

An element of FP4 is multiplied by 2^(e - 127), where e is the exponent of its block of 32; scale is then 1.
Ragged: start[i] <= j < end[i]. Paged: keys lie in pages of a cache, j < length[i]. A kernel of schedules
writes where thread blocks of a paged one begin: a sequence (with indices: a token), and a tile of its keys.
""",
    types=Combinations(("q",), OUTPUTS),
    operands=(
        Matrix(
            "q", "[queries, heads, head_dim]; FP4 lies two to a byte, the even index in the low nibble",
            rows="heads", columns="head_dim", batch="queries", type="q", raw=True,
        ),
        Packed(
            "q_scale", "[queries, heads]: for FP4, a word of exponents each; else null",
            extents=("queries", "heads"), type="s32", alignment=TMA,
            wanted=lambda problem: problem.q != "e4m3",
        ),
        Matrix("kv", "[keys, head_dim]: of ragged", rows="keys", columns="head_dim", type="q", raw=True),
        Packed(
            "kv_scale", "[keys], ragged: f32, for FP4 a word of exponents",
            extents=("keys",), type=lambda problem: "f32" if problem.q == "e4m3" else "s32", alignment=TMA,
        ),
        Matrix(
            "kv_cache", "[pages, bytes]: in each page all data, then all scales",
            rows="cache_pages", columns="page_bytes", type="e4m3", raw=True,
        ),
        Matrix("weights", "[queries, heads]", rows="queries", columns="heads", type="f32"),
        Packed("starts", "[queries]: of ragged", extents=("queries",), **_INT),
        Packed("ends", "[queries]: of ragged", extents=("queries",), **_INT),
        Packed(
            "lengths", "of contexts: [queries], or one for the last query of each sequence", measured=True,
            shape=lambda problem: (problem.queries if problem.per_token else problem.sequences,), **_INT,
        ),
        Matrix(
            "block_table", "[sequences, pages of a sequence]: where each page lies in the cache",
            rows="sequences", columns="table_pages", **_INT,
        ),
        Packed(
            "schedule", "[blocks + 1, 2]: the schedule of pages", measured=True,
            shape=lambda problem: (2 * (problem.blocks + 1),), **_INT | {"alignment": 8},
        ),
        Packed("indices", "[queries]: the sequence of each query; or null", extents=("queries",), **_INT),
        Matrix(
            "out", "[queries, columns], or a schedule",
            rows="out_rows", columns="width", alignment=1, written=True,
            type=lambda problem: "s32" if problem.form == "schedule" else problem.d,
        ),
    ),
    codes=(
        Code("width", "columns of the logits"),
        Code(
            "compressed", "whether a row begins with its query's first key", lambda problem: problem.columns
        ),
        Code("clean", "whether logits of keys that no query looks at are -infinity"),
        Code("per_token", "whether there is a length for each query"),
        Code("page", "keys of one"), Code("cache_pages", "pages of the cache"),
        # Of a longer row of the table, which no query reads to its end, an int32 may not count all keys.
        Code("table_pages", "pages of a sequence", lambda x: min(x.table_pages, -(-x.width // x.page))),
        Code("blocks", "thread blocks that a schedule is for"),
    ),
    tactic=TacticStruct(
        "tilewright_mqa_logits_tactic", members=("splits", "sm_count"),
        text="Parts of the ragged keys of a block of queries; the most multiprocessors to use."),
)  # fmt: skip
