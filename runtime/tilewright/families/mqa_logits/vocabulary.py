"""The words of MQA problems."""

from tilewright.declarations.vocabulary import Choice, Extent, Flag, Types, Words
from tilewright.families.mqa_logits.problem import FORMS, LOGITS, Problem

WORDS = Words(
    family="mqa_logits", problem=Problem, summary="Weighted sums over heads of relu(Q[i,h] . K[j]).",
    extents=(
        Extent("queries", "Queries: rows of the logits.", usual=2048),
        Extent("keys", "Keys; if paged, of each sequence.", usual=4096),
        Extent("heads", "Heads of a query: 16, 32, 64.", usual=64, default=64),
        Extent("head_dim", "Elements of a head: 32, 64, 128.", usual=128, default=128),
        Extent("next_n", "Queries of each sequence, if paged.", usual=1, default=1),
    ),
    types=Types(
        option="--dtype", default="fp8", fields={"fp8": {"q": "e4m3"}, "fp4": {"q": "mxfp4"}},
        help="Type of queries and keys: fp8 (e4m3; default), fp4 (MXFP4).",
    ),
    others=(
        Choice("out_dtype", "Type of the logits: f32 (default), bf16.", LOGITS, field="d"),
        Choice("form", "Where keys lie: ragged (in one piece; default) or paged.", FORMS[:2]),
        Flag("clean", "Write -infinity for keys that a query does not look at."),
    ),
)  # fmt: skip
