"""The products that a model's config.json stands for: extents, types, counts, and what is left out."""

from __future__ import annotations

import pytest
from model_files import EXAMPLES, LLAMA, MIXTURE, Write, listed

from tilewright.models.product import Listing, Product

GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
    "num_local_experts": 32, "num_experts_per_tok": 4,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    },
}  # fmt: skip
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def dense(listing: Listing) -> dict[str, tuple[int, int, int]]:
    """n, k and count of each product with an n, by layer."""
    return {
        product.layer: (product.example.n, product.example.k, product.count)
        for product in listing.products
        if hasattr(product.example, "n")
    }


def by_layer(listing: Listing, layer: str, op: str) -> list[Product]:
    return [each for each in listing.products if (each.layer, each.op) == (layer, f"tilewright.{op}")]


def test_qwen3_8b() -> None:
    listing = listed(EXAMPLES / "qwen3-8b.json")
    assert dense(listing) == {
        "qkv_proj": (6144, 4096, 36),
        "o_proj": (4096, 4096, 36),
        "gate_up_proj": (24576, 4096, 36),
        "down_proj": (4096, 12288, 36),
        "lm_head": (151936, 4096, 1),
    }
    assert not listing.left_out
    for product in listing.products:
        assert (product.op, product.example.a, product.example.d) == ("tilewright.gemm", "bf16", "bf16")
        assert product.values == range(1, 1025 if product.layer == "lm_head" else 16385)


def test_tensor_parallel_shards() -> None:
    assert dense(listed(EXAMPLES / "qwen3-8b.json", tp=16)) == {
        "qkv_proj": ((2 + 1 + 1) * 128, 4096, 36),  # two GPUs share each head of keys
        "o_proj": (4096, 2 * 128, 36),
        "gate_up_proj": (2 * 768, 4096, 36),
        "down_proj": (4096, 768, 36),
        "lm_head": (9496, 4096, 1),
    }


def test_deepseek_v3() -> None:
    listing = listed(EXAMPLES / "deepseek-v3.json", tp=8, ep=8, max_tokens=100)
    assert dense(listing) == {
        "fused_qkv_a_proj": (1536 + 512 + 64, 7168, 61),
        "q_b_proj": (16 * 192, 1536, 61),
        "kv_b_proj": (16 * 256, 512, 61),
        "w_uk": (512, 128, 61),
        "w_uv": (128, 512, 61),
        "o_proj": (7168, 16 * 128, 61),
        "gate_up_proj": (2 * 2304, 7168, 3),
        "down_proj": (7168, 2304, 3),
        "router": (256, 7168, 58),
        "shared_gate_up_proj": (2 * 256, 7168, 58),
        "shared_down_proj": (7168, 256, 58),
        "experts.gate_up": (4096, 7168, 58),
        "experts.gate_up (masked)": (4096, 7168, 58),
        "experts.down": (7168, 2048, 58),
        "experts.down (masked)": (7168, 2048, 58),
        "lm_head": (129280 // 8, 7168, 1),
    }
    assert not listing.left_out
    (q_b,) = by_layer(listing, "q_b_proj", "scaled_gemm")
    assert (q_b.example.a, q_b.example.scales, q_b.example.grouping) == ("e4m3", "128x128", "none")
    (w_uk,) = by_layer(listing, "w_uk", "gemm")
    assert (w_uk.example.batch, w_uk.example.layout, w_uk.example.a) == (16, "tt", "bf16")
    (router,) = by_layer(listing, "router", "gemm")
    assert router.example.d == "f32"
    contiguous = by_layer(listing, "experts.gate_up", "grouped_gemm_contiguous")
    assert [each.example.grouping for each in contiguous] == ["row_index", "ends"]
    assert {each.values for each in contiguous} == {range(128, 4865, 128)}  # 800 rows and 32 * 127 of padding
    (masked,) = by_layer(listing, "experts.down (masked)", "grouped_gemm_masked")
    assert (masked.extent, masked.values, masked.example.m) == ("expected_m", range(1025), 1024)
    assert masked.problem(7).expected_m == 7


def test_fp8_inputs_are_quantised_and_their_scales_brought_into_columns() -> None:
    listing = listed(EXAMPLES / "deepseek-v3.json", max_tokens=100)
    inputs = by_layer(listing, "down_proj input", "quantize_fp8_blockwise")
    assert [(each.example.k, each.example.fusion) for each in inputs] == [
        (18432, "none"),
        (18432, "silu_mul"),
    ]
    assert {each.example.layout for each in inputs} == {"m_major"}
    (scales,) = by_layer(listing, "down_proj scales", "scale_columns")
    assert scales.example.columns == 144
    (masked,) = by_layer(listing, "experts.gate_up (masked) scales", "scale_columns")
    assert (masked.example.batch, masked.values) == (256, range(1024, 1025))


def test_llama_and_its_vocabulary(write: Write) -> None:
    listing = listed(write(LLAMA, attention_bias=True, mlp_bias=True))
    assert dense(listing) == {
        "qkv_proj": ((8 + 4 + 4) * 128, 1024, 4),
        "o_proj": (1024, 1024, 4),
        "gate_up_proj": (8192, 1024, 4),
        "down_proj": (1024, 4096, 4),
        "lm_head": (1024, 1024, 1),  # padded to a multiple of 64
    }
    biased = {product.layer: product.example.bias for product in listing.products}
    assert biased == dict.fromkeys(biased, True) | {"lm_head": False}
    assert {product.example.a for product in listing.products} == {"f16"}


def test_gemma_keeps_its_sizes_in_text_config(write: Write) -> None:
    text = {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34
    }  # fmt: skip
    listing = listed(write({"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": text}))
    assert dense(listing)["qkv_proj"] == ((8 + 2 * 4) * 256, 2560, 34)
    assert dense(listing)["lm_head"] == (262208, 2560, 1)
    quantised = listed(write({"model_type": "gemma3", "quantization_config": BLOCKS, "text_config": text}))
    assert by_layer(quantised, "o_proj", "scaled_gemm")
    assert not by_layer(quantised, "o_proj", "gemm")


def test_experts_of_every_second_layer(write: Write) -> None:
    path = write(MIXTURE, intermediate_size=4096, decoder_sparse_step=2, mlp_only_layers=[3])
    listing = listed(path, max_tokens=8)
    assert dense(listing)["gate_up_proj"] == (8192, 2048, 4)
    assert dense(listing)["router"] == (32, 2048, 2)
    (first, _) = by_layer(listing, "experts.gate_up", "grouped_gemm_contiguous")
    assert (first.example.a, first.example.scales, first.example.groups) == ("bf16", "none", 32)
    assert first.values == range(128, 4097, 128)  # 32 rows, each with 127 of padding


def test_experts_are_divided_by_tp_or_ep(write: Write) -> None:
    shared = listed(write(MIXTURE), tp=2)
    assert dense(shared)["experts.gate_up"] == (768, 2048, 6)
    whole = listed(write(MIXTURE), tp=2, ep=4)
    assert dense(whole)["experts.gate_up"] == (1536, 2048, 6)
    assert by_layer(whole, "experts.down", "grouped_gemm_contiguous")[0].example.groups == 8


def test_shares_that_cut_blocks_are_left_out(write: Write) -> None:
    listing = listed(write(MIXTURE, quantization_config=BLOCKS), tp=4)
    assert [(left.layer, left.count) for left in listing.left_out] == [
        ("experts.gate_up", 6), ("experts.down", 6)
    ]  # fmt: skip
    assert "share of 192 cuts blocks of 128" in listing.left_out[0].reason
    listing = listed(EXAMPLES / "deepseek-v3.json", tp=128, ep=8, max_tokens=8)
    reasons = {left.layer: left.reason for left in listing.left_out}
    assert reasons["q_b_proj"] == "outputs of 192 cut blocks of 128 rows that share a scale"
    assert reasons["gate_up_proj"] == "outputs of 144, 144 cut blocks of 128 rows that share a scale"
    assert reasons["down_proj"] == "inputs of 144 cut blocks of 128 columns that share a scale"
    assert "kv_b_proj" not in reasons


def test_modules_that_are_not_quantised(write: Write) -> None:
    plain = ["lm_head", "model.layers.0.self_attn.o_proj", "model.layers.5.self_attn.o_proj"]
    path = write(MIXTURE, quantization_config={**BLOCKS, "modules_to_not_convert": plain})
    listing = listed(path)
    (few,) = by_layer(listing, "o_proj", "gemm")
    (most,) = by_layer(listing, "o_proj", "scaled_gemm")
    assert (few.count, most.count) == (2, 4)
    assert by_layer(listing, "lm_head", "gemm")


def test_gpt_oss_has_experts_of_packed_weights(write: Write) -> None:
    listing = listed(write(GPT_OSS), max_tokens=16)
    sizes = {layer: size for layer, size in dense(listing).items() if not layer.startswith("experts")}
    assert sizes == {
        "qkv_proj": (5120, 2880, 24),
        "o_proj": (2880, 4096, 24),
        "router": (32, 2880, 24),
        "lm_head": (201088, 2880, 1),
    }
    assert {product.layer: product.example.bias for product in listing.products}["router"]
    assert not listing.left_out
    experts = by_layer(listing, "experts.gate_up", "packed_grouped_gemm")
    assert {product.example.grouping for product in experts} == {"row_index", "ends"}
    for product in experts:
        problem = product.example
        assert (problem.groups, problem.n, problem.k, problem.weight_format) == (32, 5760, 2880, "mxfp4")
        assert product.values == range(1, 4 * 16 + 1)  # four experts of a token
    (masked,) = by_layer(listing, "experts.down (masked)", "packed_grouped_gemm")
    assert (masked.extent, masked.example.grouping, masked.count) == ("expected_m", "rows_valid", 24)


def test_experts_of_packed_weights_that_no_kernel_multiplies(write: Write) -> None:
    for fields, reason in (
        ({"torch_dtype": "float16"}, "MXFP4 is multiplied by bf16, not f16"),
        ({"intermediate_size": 2896}, "columns in units of 32, not 2880 and 2896"),
    ):
        listing = listed(write(GPT_OSS, **fields))
        assert reason in listing.left_out[-1].reason
        assert listing.left_out[-1].layer == "experts.down"


def test_other_quantisations_are_left_out_with_their_name(write: Write) -> None:
    listing = listed(write(LLAMA, quantization_config={"quant_method": "awq", "bits": 4}))
    assert list(dense(listing)) == ["lm_head"]
    assert {left.layer for left in listing.left_out} == {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}
    assert {left.reason for left in listing.left_out} == {
        "its weights are quantised by awq, and no kernel multiplies such weights"
    }
    blocks = {"quant_method": "fp8", "weight_block_size": [64, 64]}
    assert "64x64" in listed(write(LLAMA, quantization_config=blocks)).left_out[0].reason


@pytest.mark.parametrize(
    ("dtype", "op", "a"), [("fp8", "gemm", "e4m3"), ("fp8_block", "scaled_gemm", "e4m3")]
)
def test_the_option_overrules_the_checkpoint(dtype: str, op: str, a: str, write: Write) -> None:
    listing = listed(write(LLAMA), dtype=dtype)
    (product,) = by_layer(listing, "gate_up_proj", op)
    assert product.example.a == a
    (head,) = by_layer(listing, "lm_head", "gemm")
    assert head.example.a == "f16"


def test_experts_of_other_types_are_left_out(write: Write) -> None:
    (left, _) = listed(write(MIXTURE), dtype="fp8").left_out
    assert left.reason == "there are grouped kernels of bf16 and fp8_block, and none of fp8"
