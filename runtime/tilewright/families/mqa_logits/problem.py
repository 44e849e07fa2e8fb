"""The problem of a call of the MQA ops, apart from where its tensors lie."""

from dataclasses import dataclass

from tilewright.configurations.shared import flag
from tilewright.declarations.problem import ProblemBase
from tilewright.formats.types import bits

FORMS = ("ragged", "paged", "schedule")
PAGES = (32, 64)  # keys of a page
TYPES = ("e4m3", "mxfp4")  # of queries and keys
LOGITS = ("f32", "bf16")
OUTPUTS: dict[tuple[str, ...], tuple[str, ...]] = {(type,): LOGITS for type in TYPES}  # the default first
SCALE_BYTES = 4  # bytes of a key's scale, or of the exponents of an FP4 key or head
MOST_TOKENS = 32  # queries of a sequence


@dataclass(frozen=True, slots=True)
class Problem(ProblemBase):
    """out[i,j] = scale[j] * sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]) where query i looks at key j.

    Ragged: keys lie in one piece, and query i looks at start[i] <= j < end[i]. Paged: they lie in pages of a
    cache, and query i, one of `next_n` of its sequence, looks at j < length[i]. A schedule says which tiles
    of a paged problem each of `blocks` thread blocks computes.
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
    columns: int = (
        0  # columns of a compressed row, which begins with the query's first key; 0: the number of keys
    )
    per_token: bool = True  # there is a length for each query; else one for a sequence's last query
    page: int = 64  # keys of a page
    cache_pages: int = 1
    table_pages: int = 1  # pages of a sequence
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
        """Bytes that memory must move at least: queries, each key once for its sequence, lengths, results."""
        written = 4 * self.queries + self.out_rows * self.width * bits(self.d) // 8
        if self.form == "schedule":
            return written
        keys = self.keys * (self.sequences if self.form == "paged" else 1)
        exponents = 4 if self.q == "mxfp4" else 0
        # A query's weight of a head has 4 bytes, as a key's scale has, which `key_bytes` counts.
        heads = self.queries * self.heads * (self.key_bytes + exponents)
        return keys * self.key_bytes + heads + written

    @property
    def op_text(self) -> str:
        return f"{self.form} MQA logits"

    @property
    def types_text(self) -> str:
        return f"{self.heads} heads of {self.head_dim}, {self.q} -> {self.d}{flag(', clean', self.clean)}"
