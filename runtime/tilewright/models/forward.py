"""Lists the products of a decoder's forward pass on one GPU.

The layers are those of serving engines: the projections of queries, keys and values are one product, and so
are gate and up. A GPU of a tensor-parallel group has whole heads and an equal share of the intermediate size;
routers and compressed projections are the same on all of them. With expert parallelism a GPU has some of the
experts, each whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ArgumentError
from tilewright.models import schemes
from tilewright.models.configuration import Decoder, Experts, Latent
from tilewright.models.layers import ExpertLayer, Layers
from tilewright.models.product import Listing

VOCABULARY_MULTIPLE = 64  # serving engines pad the vocabulary to a multiple of this
_QKV = ("q_proj", "k_proj", "v_proj", "qkv_proj", "self_attn")
_LATENT_A = ("q_a_proj", "kv_a_proj_with_mqa", "fused_qkv_a_proj", "self_attn")
_GATE_UP = ("gate_proj", "up_proj", "gate_up_proj", "mlp")


@dataclass(frozen=True)
class Serving:
    """How a model is served."""

    tp: int = 1  # GPUs of a tensor-parallel group
    ep: int = 1  # GPUs among which experts are divided; 1: each expert is divided among the group
    max_tokens: int = 16384  # tokens of a forward pass
    max_sequences: int = 1024  # rows of the product with the vocabulary
    masked_rows: int = 1024  # rows that an expert has room for, in products of masked groups
    dtype: str | None = None  # one of `schemes.SCHEMES`, instead of the checkpoint's


def products(decoder: Decoder, serving: Serving) -> Listing:
    """The products of a forward pass. Raises ArgumentError if the model cannot be divided so."""
    title = f"{decoder.model_type}, {decoder.layers} layers"
    layers = Layers(decoder, serving.dtype, serving.max_tokens, Listing(title))
    _check(decoder, serving)
    if decoder.latent is None:
        _attention(layers, decoder, serving)
    else:
        _latent_attention(layers, decoder, decoder.latent, serving)
    experts = decoder.experts
    if dense := decoder.layers - (experts.layers if experts else 0):
        share = decoder.intermediate // serving.tp
        _mlp(layers, "", decoder.hidden, share, dense, bias=decoder.mlp_bias, sharded=serving.tp > 1)
    if experts:
        _mixture(layers, decoder, experts, serving)
    padded = -(-decoder.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    rows = range(1, serving.max_sequences + 1)
    layers.plain("lm_head", padded // serving.tp, decoder.hidden, count=1, values=rows)
    return layers.listing


def _check(decoder: Decoder, serving: Serving) -> None:
    tp, experts = serving.tp, decoder.experts
    shares = {"the heads": decoder.heads, "the intermediate size": decoder.intermediate}
    shares[f"the vocabulary, padded to multiples of {VOCABULARY_MULTIPLE}"] = (
        -(-decoder.vocabulary // VOCABULARY_MULTIPLE) * VOCABULARY_MULTIPLE
    )
    if experts is not None:
        shares["the experts' intermediate size"] = experts.intermediate if serving.ep == 1 else tp
        shares["the shared experts' intermediate size"] = experts.shared
        if experts.count % serving.ep:
            divisor = f"expected a divisor of the number of experts ({experts.count})"
            raise ArgumentError("ep", f"{serving.ep}: {divisor}")
    elif serving.ep > 1:
        reason = f"a model of type {decoder.model_type} has no experts"
        raise ArgumentError("ep", f"{serving.ep}: expected 1, because {reason}")
    for what, total in shares.items():
        if total % tp:
            raise ArgumentError("tp", f"{tp}: expected a divisor of {what} ({total})")
    if decoder.kv_heads % tp and tp % decoder.kv_heads:
        heads = f"the number of heads of keys ({decoder.kv_heads})"
        raise ArgumentError("tp", f"{tp}: expected a divisor or a multiple of {heads}")


def _attention(layers: Layers, decoder: Decoder, serving: Serving) -> None:
    heads, keys = decoder.heads // serving.tp, max(1, decoder.kv_heads // serving.tp)
    sides, sharded = [size * decoder.head_dim for size in (heads, keys, keys)], serving.tp > 1
    count, bias = decoder.layers, decoder.qkv_bias
    layers.linear("qkv_proj", sides, decoder.hidden, modules=_QKV, count=count, bias=bias, sharded_n=sharded)
    layers.linear(
        "o_proj", [decoder.hidden], heads * decoder.head_dim,
        modules=("o_proj", "self_attn"), count=count, bias=decoder.o_bias, sharded_k=sharded,
    )  # fmt: skip


def _latent_attention(layers: Layers, decoder: Decoder, latent: Latent, serving: Serving) -> None:
    """Multi-head latent attention. Long prompts decompress keys and values (`kv_b_proj`); decoding multiplies
    queries and results by the halves of the same weight instead (`w_uk`, `w_uv`), head by head."""
    heads, count, sharded = decoder.heads // serving.tp, decoder.layers, serving.tp > 1
    query, compressed = heads * (latent.nope + latent.rope), latent.kv_rank + latent.rope
    if latent.q_rank:
        sides = [latent.q_rank, compressed]
        layers.linear("fused_qkv_a_proj", sides, decoder.hidden, modules=_LATENT_A, count=count)
        layers.linear(
            "q_b_proj", [query], latent.q_rank,
            modules=("q_b_proj", "self_attn"), count=count, sharded_n=sharded,
        )  # fmt: skip
    else:
        layers.linear("q_proj", [query], decoder.hidden, modules=_QKV, count=count, sharded_n=sharded)
        layers.linear("kv_a_proj", [compressed], decoder.hidden, modules=_LATENT_A, count=count)
    layers.linear(
        "kv_b_proj", [heads * (latent.nope + latent.value)], latent.kv_rank,
        modules=("kv_b_proj", "self_attn"), count=count, sharded_n=sharded,
    )  # fmt: skip
    layers.batched("w_uk", heads, latent.kv_rank, latent.nope, layout="tt", count=count)
    layers.batched("w_uv", heads, latent.value, latent.kv_rank, layout="tn", count=count)
    layers.linear(
        "o_proj", [decoder.hidden], heads * latent.value,
        modules=("o_proj", "self_attn"), count=count, sharded_k=sharded,
    )  # fmt: skip


def _mlp(
    layers: Layers, prefix: str, hidden: int, share: int, count: int, *, bias: bool = False, sharded: bool
) -> None:
    layers.linear(
        f"{prefix}gate_up_proj", [share, share], hidden,
        modules=_GATE_UP, count=count, bias=bias, sharded_n=sharded,
    )  # fmt: skip
    layers.linear(
        f"{prefix}down_proj", [hidden], share,
        modules=("down_proj", "mlp"), count=count, bias=bias, sharded_k=sharded, fusion="silu_mul",
    )  # fmt: skip


def _mixture(layers: Layers, decoder: Decoder, experts: Experts, serving: Serving) -> None:
    hidden, count = decoder.hidden, experts.layers
    layers.plain(
        "router", experts.count, hidden, count=count, bias=experts.router_bias, out=experts.router_type
    )
    if experts.shared:
        _mlp(layers, "shared_", hidden, experts.shared // serving.tp, count, sharded=serving.tp > 1)
    whole = serving.ep > 1
    share = experts.intermediate if whole else experts.intermediate // serving.tp
    groups = experts.count // serving.ep
    scheme = schemes.experts(decoder, serving.dtype)
    rows = serving.max_tokens * experts.chosen
    for layer, n, k, fusion in (("gate_up", 2 * share, hidden, "none"), ("down", hidden, share, "silu_mul")):
        expert = ExpertLayer(f"experts.{layer}", scheme, groups, n, k, share, count, fusion)
        layers.grouped(expert, rows=rows, masked_rows=serving.masked_rows)
