"""The products of one layer of a model, in the types of a scheme."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.declarations.vocabulary import TYPES
from tilewright.models import schemes
from tilewright.models.configuration import Decoder
from tilewright.models.product import LeftOut, Listing, Product
from tilewright.models.schemes import BLOCK, Scheme

ROW_ALIGNMENT = 128  # groups of a contiguous product begin at multiples of this row


class ExpertLayer(NamedTuple):
    """A linear layer of each of a model's experts."""

    layer: str
    scheme: Scheme
    groups: int
    n: int
    k: int
    share: int  # the part of the intermediate size that is one GPU's
    layers: int
    fusion: str  # what quantising its input may do besides


class Layers:
    """Adds the products of layers to a listing."""

    def __init__(self, decoder: Decoder, dtype: str | None, max_tokens: int, listing: Listing) -> None:
        self._decoder = decoder
        self._plain = Scheme(dtype if dtype in ("bf16", "f16") else decoder.dtype)
        self._quantised = schemes.linear(decoder, dtype)
        self._demanded = dtype is not None
        self._tokens = range(1, max_tokens + 1)
        self.listing = listing

    def linear(
        self,
        layer: str,
        sides: Sequence[int],
        k: int,
        *,
        modules: Collection[str],
        count: int,
        bias: bool = False,
        sharded_n: bool = False,
        sharded_k: bool = False,
        fusion: str = "none",
    ) -> None:
        """A linear layer with k inputs; `sides`: the outputs of each of the weights that are one product.

        modules: its names in a checkpoint. sharded_n, sharded_k: whether it is one GPU's part of the outputs,
        or of the inputs. fusion: what quantising its input may do besides.
        """
        quantization = self._decoder.quantization
        plain = 0 if self._demanded else schemes.plain_layers(quantization, modules, count)
        if plain:
            self.plain(layer, sum(sides), k, count=plain, bias=bias)
        if count == plain:
            return
        scheme, rest = self._quantised, count - plain
        if scheme.name == "fp8_block" and (reason := _cut_block(sides, k, sharded_n, sharded_k)):
            scheme = Scheme("", reason)
        if scheme.name == "fp8_block":
            self._scaled(layer, sum(sides), k, count=rest, bias=bias, fusion=fusion)
        else:
            self._dense(layer, scheme, sum(sides), k, count=rest, bias=bias)

    def plain(
        self, layer: str, n: int, k: int, *, count: int, bias: bool = False, out: str = "",
        values: range | None = None,
    ) -> None:  # fmt: skip
        """A linear layer that is not quantised. out: the type of its result; "": that of its operands."""
        self._dense(layer, self._plain, n, k, count=count, bias=bias, out=out, values=values)

    def batched(self, layer: str, batch: int, n: int, k: int, *, layout: str, count: int) -> None:
        """A product for each of `batch` heads, in the plain type."""
        words = {"batch": batch, "layout": layout}
        self._dense(layer, self._plain, n, k, count=count, words=words)

    def grouped(self, expert: ExpertLayer, *, rows: int, masked_rows: int) -> None:
        """The experts of a layer: as contiguous groups of `rows` rows together, which begin at multiples of
        `ROW_ALIGNMENT`, and as masked groups with room for `masked_rows` rows each."""
        scheme, n, k = expert.scheme, expert.n, expert.k
        reason = scheme.reason
        if scheme.name == "mxfp4":
            reason = _not_packed(n, k, self._decoder.dtype)
        elif scheme.name not in ("", "bf16", "fp8_block"):
            reason = f"there are grouped kernels of bf16 and fp8_block, and none of {scheme.name}"
        elif scheme.name == "fp8_block" and expert.share % BLOCK:
            reason = f"an expert's share of {expert.share} cuts blocks of {BLOCK} that share a scale"
        if reason:
            self._leave_out(expert.layer, f"{expert.groups} groups, n {n}, k {k}", reason, expert.layers)
            return
        if scheme.name == "mxfp4":
            self._packed(expert, rows, masked_rows)
            return
        words = {"groups": expert.groups, "n": n, "k": k, **_grouped_types(scheme)}
        self._contiguous(expert, words, rows)
        self._masked(expert, words, masked_rows)

    def _packed(self, expert: ExpertLayer, rows: int, masked_rows: int) -> None:
        """Experts of packed 4-bit weights. Groups begin at any row."""
        format, count = expert.scheme.name, expert.layers
        words = {
            TYPES: "bf16",
            "groups": expert.groups,
            "n": expert.n,
            "k": expert.k,
            "weight_format": format,
        }
        family, op = "mixed_grouped_gemm", "packed_grouped_gemm"
        for grouping in ("row_index", "ends"):
            own = {**words, "grouping": grouping}
            self._add(expert.layer, op, family, own, count=count, values=range(1, rows + 1))
        own = {**words, "m": masked_rows, "grouping": "rows_valid"}
        self._add(
            f"{expert.layer} (masked)", op, family, own,
            count=count, values=range(masked_rows + 1), extent="expected_m",
        )  # fmt: skip

    def _contiguous(self, expert: ExpertLayer, words: Mapping[str, Any], rows: int) -> None:
        most = rows + min(expert.groups, rows) * (ROW_ALIGNMENT - 1)
        values = range(ROW_ALIGNMENT, -(-most // ROW_ALIGNMENT) * ROW_ALIGNMENT + 1, ROW_ALIGNMENT)
        count = expert.layers
        if expert.scheme.name == "fp8_block":
            self._quantised_input(expert.layer, expert.k, expert.fusion, values=values, count=count)
        for grouping in ("row_index", "ends"):  # a caller gives each row's group, or where groups end
            own = {**words, "row_alignment": ROW_ALIGNMENT, "grouping": grouping}
            self._add(
                expert.layer, "grouped_gemm_contiguous", "grouped_gemm", own, count=count, values=values
            )

    def _masked(self, expert: ExpertLayer, words: Mapping[str, Any], rows: int) -> None:
        layer, count = f"{expert.layer} (masked)", expert.layers
        if expert.scheme.name == "fp8_block":
            values = range(rows, rows + 1)
            self._quantised_input(
                layer, expert.k, expert.fusion, values=values, count=count, groups=expert.groups
            )
        own = {**words, "m": rows, "grouping": "rows_valid"}
        self._add(
            layer, "grouped_gemm_masked", "grouped_gemm", own,
            count=count, values=range(rows + 1), extent="expected_m",
        )  # fmt: skip

    def _dense(
        self, layer: str, scheme: Scheme, n: int, k: int, *, count: int, bias: bool = False, out: str = "",
        values: range | None = None, words: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        if not scheme.name:
            self._leave_out(layer, f"n {n}, k {k}", scheme.reason, count)
            return
        types = {TYPES: scheme.name} | ({"out_dtype": out} if out else {}) | ({"bias": True} if bias else {})
        self._add(
            layer, "gemm", "gemm", {**types, "n": n, "k": k, **(words or {})}, count=count, values=values
        )

    def _scaled(self, layer: str, n: int, k: int, *, count: int, bias: bool, fusion: str) -> None:
        """A linear layer of FP8 with scales of blocks, and the quantising of its input."""
        self._quantised_input(layer, k, fusion, values=self._tokens, count=count)
        words = {TYPES: "fp8", "n": n, "k": k, "scales": f"{BLOCK}x{BLOCK}", "grouping": "none"}
        self._add(layer, "scaled_gemm", "grouped_gemm", words, count=count)
        if bias:
            self._leave_out(f"{layer} (bias)", f"n {n}", "products with scales of blocks add no bias", count)

    def _quantised_input(
        self, layer: str, k: int, fusion: str, *, values: range, count: int, groups: int = 1
    ) -> None:
        """The problems of quantising a layer's input (a scale for 128 of k of a row), with and without its
        `fusion`, and of bringing another program's scales into columns."""
        words: dict[str, Any] = {TYPES: f"fp8_1x{BLOCK}", "k": k, "layout": "m_major", "groups": groups}
        for how in dict.fromkeys(("none", fusion)):
            fused = {**words, "fusion": how}
            self._add(
                f"{layer} input", "quantize_fp8_blockwise", "quantize", fused, count=count, values=values
            )
        columns = {TYPES: "m_major", "columns": -(-k // BLOCK), "batch": groups}
        self._add(f"{layer} scales", "scale_columns", "scale_columns", columns, count=count, values=values)

    def _add(
        self, layer: str, op: str, family: str, words: Mapping[str, Any], *, count: int,
        values: range | None = None, extent: str = "m",
    ) -> None:  # fmt: skip
        values = self._tokens if values is None else values
        product = Product.of_words(
            layer, f"tilewright.{op}", family, words, values, extent=extent, count=count
        )
        self.listing.products.append(product)

    def _leave_out(self, layer: str, what: str, reason: str, count: int) -> None:
        self.listing.left_out.append(LeftOut(layer, what, reason, count))


def _grouped_types(scheme: Scheme) -> dict[str, Any]:
    return {TYPES: "fp8", "scales": f"{BLOCK}x{BLOCK}"} if scheme.name == "fp8_block" else {TYPES: "bf16"}


def _not_packed(n: int, k: int, dtype: str) -> str:
    """Why no kernel multiplies by experts of MXFP4 with these extents; "" if one does."""
    if dtype != "bf16":
        return f"MXFP4 is multiplied by bf16, not {dtype}"
    if n % 8 or k % 32:
        return f"packed weights have rows in units of 8 and columns in units of 32, not {n} and {k}"
    return ""


def _cut_block(sides: Sequence[int], k: int, sharded_n: bool, sharded_k: bool) -> str:
    """Why a GPU's part of a weight cannot keep the scales of whole blocks; "" if it can."""
    bounds = sides if sharded_n else sides[:-1]  # a weight begins after each of these
    if any(side % BLOCK for side in bounds):
        return f"outputs of {', '.join(map(str, sides))} cut blocks of {BLOCK} rows that share a scale"
    if sharded_k and k % BLOCK:
        return f"inputs of {k} cut blocks of {BLOCK} columns that share a scale"
    return ""
