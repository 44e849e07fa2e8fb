"""Reads a Hugging Face `config.json`: the sizes of a decoder, and how its weights are quantised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.base import reading
from tilewright.base.schema import Anything
from tilewright.base.spelling import did_you_mean
from tilewright.errors import UnreadableFileError

DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "bf16"}  # a float32 checkpoint is served in BF16
# The values of fields that a config.json leaves out, as Hugging Face's classes have them.
DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
    },
    "gpt_oss": {"attention_bias": True},
    "qwen2": {"qkv_bias": True},
}  # fmt: skip
DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text")
MIXTURES = ("mixtral", "qwen3_moe", "gpt_oss")
LATENT = ("deepseek_v2", "deepseek_v3", "kimi_k2")
MODEL_TYPES = (*DENSE, *MIXTURES, *LATENT)


@dataclass(frozen=True)
class Latent:
    """Sizes of multi-head latent attention (DeepSeek-V3 report, section 2.1.1)."""

    q_rank: int  # of the compressed query; 0: queries are not compressed
    kv_rank: int  # of the compressed keys and values
    nope: int  # elements of a head's query and key without position
    rope: int  # elements with position, which all heads' keys share
    value: int  # elements of a head's value


@dataclass(frozen=True)
class Experts:
    """Sizes of the layers with experts."""

    count: int
    chosen: int  # experts of a token
    intermediate: int
    layers: int  # layers with experts; the others are dense
    shared: int = 0  # intermediate size of the experts that see all tokens
    router_bias: bool = False
    router_type: str = ""  # of the router's result; "": the model's type


@dataclass(frozen=True)
class Quantization:
    """How the weights of a checkpoint are stored, beside those that are not quantised."""

    method: str = ""  # "" if no weight is quantised
    block: tuple[int, ...] = ()  # rows and columns of a weight that share a scale
    plain: tuple[str, ...] = ()  # names of the modules that are not quantised


class Decoder(NamedTuple):
    """The sizes of a decoder."""

    path: Path
    model_type: str
    dtype: str  # bf16 or f16
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    latent: Latent | None
    experts: Experts | None
    quantization: Quantization


class _Fields:
    """The values of a config.json. Each error names the file and the field."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self.type = str(values.get("model_type", ""))
        self.values = {**DEFAULTS.get(self.type, {}), **values}

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number from 1. With a `default`, which an absent field or null stands for, from 0."""
        value, least = self.values.get(name), 1 if default is None else 0
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 30:
            raise self.fault(name, f"expected a whole number from {least}, got {_shown(value)}")
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name, False)
        if not isinstance(value, bool):
            raise self.fault(name, f"expected true or false, got {_shown(value)}")
        return value

    def fault(self, name: str, reason: str) -> UnreadableFileError:
        return UnreadableFileError(self.path, f"{name}: {reason}")


def read(path: Path) -> Decoder:
    """The decoder that a config.json describes. Raises UnreadableFileError, which names the field."""
    try:
        whole = reading.load_json(path, Anything())
    except FileNotFoundError:
        raise UnreadableFileError(path, "no such file") from None
    if not isinstance(whole, dict):
        raise UnreadableFileError(path, f"expected an object of fields, got {_shown(whole)}")
    text = whole.get("text_config")
    shared = {name: whole[name] for name in ("quantization_config", "torch_dtype", "dtype") if name in whole}
    fields = _Fields(path, {**shared, **text} if isinstance(text, dict) else whole)
    if fields.type not in MODEL_TYPES:
        meant = did_you_mean(fields.type, MODEL_TYPES) or f"; expected one of {', '.join(MODEL_TYPES)}"
        hint = "A list of products serves any model: `--problems FILE` (docs/bundles.md)."
        reason = f"model_type: {_shown(fields.values.get('model_type'))} is not known{meant}"
        raise UnreadableFileError(path, reason, hint=hint)
    return _decoder(fields)


def _decoder(fields: _Fields) -> Decoder:
    heads, hidden = fields.number("num_attention_heads"), fields.number("hidden_size")
    layers, bias = fields.number("num_hidden_layers"), fields.flag("attention_bias")
    experts = _experts(fields, layers)
    dense = experts is None or experts.layers < layers
    return Decoder(
        path=fields.path,
        model_type=fields.type,
        dtype=_dtype(fields),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=fields.number("num_key_value_heads", heads),
        head_dim=fields.number("head_dim", hidden // heads),
        intermediate=fields.number("intermediate_size") if dense else 0,
        vocabulary=fields.number("vocab_size"),
        qkv_bias=bias or fields.flag("qkv_bias"),
        o_bias=bias,
        mlp_bias=fields.flag("mlp_bias"),
        latent=_latent(fields) if fields.type in LATENT else None,
        experts=experts,
        quantization=_quantization(fields),
    )


def _dtype(fields: _Fields) -> str:
    name = fields.values.get("dtype") or fields.values.get("torch_dtype") or "bfloat16"
    if not isinstance(name, str) or name not in DTYPES:
        raise fields.fault("torch_dtype", f"expected one of {', '.join(DTYPES)}, got {_shown(name)}")
    return DTYPES[name]


def _latent(fields: _Fields) -> Latent:
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    return Latent(fields.number("q_lora_rank", 0), *map(fields.number, names))


def _experts(fields: _Fields, layers: int) -> Experts | None:
    if fields.type in LATENT:
        if not fields.values.get("n_routed_experts"):
            return None
        intermediate = fields.number("moe_intermediate_size")
        return Experts(
            fields.number("n_routed_experts"),
            fields.number("num_experts_per_tok"),
            intermediate,
            layers - min(layers, fields.number("first_k_dense_replace", 0)),
            shared=intermediate * fields.number("n_shared_experts", 0),
            router_type="f32",
        )
    if fields.type not in MIXTURES:
        return None
    if fields.type == "qwen3_moe":
        return _of_qwen3(fields, layers)
    return Experts(
        fields.number("num_local_experts"),
        fields.number("num_experts_per_tok"),
        fields.number("intermediate_size"),
        layers,
        router_bias=fields.type == "gpt_oss",
    )


def _of_qwen3(fields: _Fields, layers: int) -> Experts:
    """Every `decoder_sparse_step`-th layer has experts, except those in `mlp_only_layers`."""
    step, dense = fields.number("decoder_sparse_step", 1), fields.values.get("mlp_only_layers") or []
    if step == 0:
        raise fields.fault("decoder_sparse_step", "expected a whole number from 1, got 0")
    if not (isinstance(dense, list) and all(type(layer) is int for layer in dense)):
        raise fields.fault("mlp_only_layers", f"expected a list of numbers, got {_shown(dense)}")
    left_out = {layer for layer in dense if 0 <= layer < layers and (layer + 1) % step == 0}
    return Experts(
        fields.number("num_experts"),
        fields.number("num_experts_per_tok"),
        fields.number("moe_intermediate_size"),
        layers // step - len(left_out),
    )


def _quantization(fields: _Fields) -> Quantization:
    values = fields.values.get("quantization_config")
    if values is None:
        return Quantization()
    if not isinstance(values, dict) or not isinstance(values.get("quant_method"), str):
        raise fields.fault("quantization_config", "expected an object with a quant_method")
    block, plain = values.get("weight_block_size") or [], values.get("modules_to_not_convert") or []
    if not (isinstance(block, list) and all(isinstance(side, int) for side in block)):
        raise fields.fault("weight_block_size", f"expected two numbers, got {_shown(block)}")
    if not (isinstance(plain, list) and all(isinstance(name, str) for name in plain)):
        raise fields.fault("modules_to_not_convert", f"expected a list of names, got {_shown(plain)}")
    return Quantization(values["quant_method"], tuple(block), tuple(plain))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
