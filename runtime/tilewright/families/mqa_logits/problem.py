"""What a caller of the MQA ops asks, apart from where the tensors lie."""

from dataclasses import dataclass

from tilewright.declarations.problem import ProblemBase
from tilewright.formats.types import bits

FORMS = ("ragged", "paged", "schedule")
PAGES = (32, 64)  # keys of one
TYPES = ("e4m3", "mxfp4")  # of queries and keys
LOGITS = ("f32", "bf16")
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {(type,): LOGITS for type in TYPES}  # the default first
SCALE_BYTES = 4  # of a key, and of a head of FP4
MOST_TOKENS = 32  # of a sequence


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """out[i,j] = scale[j] * sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]) where query i looks at key j.

    Ragged: keys lie in one piece, and query i looks at start[i] <= j < end[i]. Paged: they lie in pages of a
    cache, and query i, one of `next_n` of its sequence, looks at j < length[i]. A schedule is what each of
    `blocks` thread blocks is to do of a paged problem.
    """

    kind_fields = ("form", "q", "d", "heads", "head_dim")
    shown_beyond_1 = (("next_n", ", {} of each sequence"),)

    queries: int
    keys: int
    heads: int = 64
    head_dim: int = 128
    next_n: int = 1  # queries of a sequence
    form: str = "ragged"
    q: str = "e4m3"
    d: str = "f32"
    clean: bool = False  # logits of keys that a query does not look at are -infinity
    columns: int = 0  # of a compressed row, which begins with the query's first key; 0: keys
    per_token: bool = True  # lengths are those of queries, else of a sequence's last query
    page: int = 64  # keys
    cache_pages: int = 1
    table_pages: int = 1  # of a sequence
    blocks: int = 1

    @property
    def width(self) -> int:
        return self.columns or self.keys

    @property
    def out_rows(self) -> int:
        return self.blocks + 1 if self.form == "schedule" else self.queries

    @property
    def sequences(self) -> int:
        return self.queries // (self.next_n or 1)

    @property
    def key_bytes(self) -> int:
        return self.head_dim * bits(self.q) // 8 + SCALE_BYTES

    @property
    def page_bytes(self) -> int:
        return self.page * self.key_bytes  # all data of a page, then all scales

    @property
    def flops(self) -> int:
        return 2 * self.queries * self.keys * self.heads * self.head_dim

    @property
    def bytes(self) -> int:
        """That memory must move at least: each key once for its sequence, lengths, all that is written."""
        keys = self.keys * {"ragged": 1, "paged": self.sequences, "schedule": 0}[self.form]
        heads = self.queries * self.heads * (self.key_bytes + 4 * (self.q != "e4m3"))  # weights, too
        out = 4 * self.queries + self.out_rows * self.width * bits(self.d) // 8
        return keys * self.key_bytes + heads * (self.form != "schedule") + out

    @property
    def op_text(self) -> str:
        return f"{self.form} MQA logits"

    @property
    def types_text(self) -> str:
        return f"{self.heads} heads of {self.head_dim}, {self.q} -> {self.d}{', clean' * self.clean}"
