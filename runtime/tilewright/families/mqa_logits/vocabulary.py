"""The words of MQA problems."""

from tilewright.declarations.vocabulary import Choice, Extent, Flag, Types, Words
from tilewright.families.mqa_logits.problem import FORMS, LOGITS, Problem

WORDS = Words(
    family="mqa_logits", problem=Problem, summary="Weighted sums over heads of relu(Q[i,h] . K[j]).",
    extents=(
        Extent("queries", "Queries: rows of the logits.", usual=2048),
        Extent("keys", "Keys; of pages, of each sequence.", usual=4096),
        Extent("heads", "Of a query: 16, 32, 64.", usual=64, default=64),
        Extent("head_dim", "Elements of a head: 32, 64, 128.", usual=128, default=128),
        Extent("next_n", "Queries of each sequence of pages.", usual=1, default=1),
    ),
    types=Types(
        option="--dtype", default="fp8", fields={"fp8": {"q": "e4m3"}, "fp4": {"q": "mxfp4"}},
        help="Of queries and keys: fp8 (e4m3; default), fp4 (MXFP4).",
    ),
    others=(
        Choice("out_dtype", "Of the logits: f32 (default), bf16.", LOGITS, field="d"),
        Choice("form", "Keys in one piece, ragged (default), or paged.", FORMS[:2]),
        Flag("clean", "Write -infinity where a query does not look."),
    ),
)  # fmt: skip
