"""Writes data/golden_weights.json: small layers that real libraries packed, and the weights that they decode.

Tests read the file and import none of the libraries. To renew it, install what a function below imports (its
docstring says which release wrote the committed vectors) beside torch on a CPU, and run this file. It skips
libraries that are not there and keeps their vectors.
"""

# ruff: noqa: PLC0415 (a library that is not installed is skipped)

from __future__ import annotations

import base64
import importlib.metadata
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

PATH = Path(__file__).parent / "data/golden_weights.json"
Tensors = dict[str, torch.Tensor]
Case = tuple[str, str, Tensors, dict[str, Any], torch.Tensor]
"""Its name, the reader, the tensors by its parameters, other options, and the decoded weight [..., n, k]."""


def written(tensor: torch.Tensor) -> dict[str, Any]:
    """A tensor as JSON; the bytes are little-endian."""
    octets = bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "base64": base64.b64encode(octets).decode(),
    }


def linear(n: int, k: int) -> torch.nn.Linear:
    torch.manual_seed(n * 1000 + k)
    layer = torch.nn.Linear(k, n, bias=False).half()
    layer.weight.data.normal_()
    return layer


def asymmetric(weight: torch.Tensor, group: int, bits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scales and zero points [n, k/group] by minima and maxima; no zero point is 0."""
    parts = weight.float().unflatten(1, (-1, group))
    low, high = parts.amin(-1).clamp(max=-0.3), parts.amax(-1).clamp(min=0.3)
    scales = ((high - low) / (2**bits - 1)).half()
    return scales, (-low / scales.float()).round().clamp(1, 2**bits - 1)


def autoawq() -> Iterator[Case]:
    """autoawq 0.2.9."""
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    layer = linear(32, 32)
    scales, zeros = asymmetric(layer.weight, 16, 4)
    columns = {"scales": scales.t().contiguous(), "zeros": zeros.t().contiguous()}
    packed = WQLinear_GEMM.from_linear(layer, 4, 16, **columns)
    tensors = {name: getattr(packed, name) for name in ("qweight", "qzeros", "scales")}
    yield "awq", "from_awq", tensors, {}, dequantize_gemm(*tensors.values(), 4, 16).t()


def auto_gptq() -> Iterator[Case]:
    """auto-gptq 0.7.1: the format that stores zero points minus 1."""
    from auto_gptq.nn_modules.qlinear.qlinear_cuda_old import QuantLinear

    for name, bits, symmetric in (("sym", 4, True), ("asym", 4, False), ("asym_8", 8, False)):
        layer = linear(32, 32)
        scales, zeros = asymmetric(layer.weight, 16, bits)
        if symmetric:
            scales, zeros = (
                (layer.weight.float().unflatten(1, (-1, 16)).abs().amax(-1) / 7).half(),
                zeros * 0 + 8,
            )
        packed = QuantLinear(bits, 16, 32, 32, bias=False)
        packed.pack(layer, scales.clone(), zeros.clone(), None)
        tensors = {part: getattr(packed, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
        decoded = packed(torch.eye(32, dtype=torch.float16)).t()
        yield f"gptq_{name}", "from_gptq", tensors, {"bits": bits}, decoded


def gptqmodel() -> Iterator[Case]:
    """gptqmodel 7.7.0: the format gptq_v2, which stores zero points as they are."""
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear

    layer = linear(32, 32)
    scales, zeros = asymmetric(layer.weight, 16, 4)
    packed = TorchLinear(
        bits=4, group_size=16, sym=False, desc_act=False, in_features=32, out_features=32, bias=False
    )
    packed.pack_original(layer, scales, zeros)
    tensors = {part: getattr(packed, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
    decoded = packed.dequantize_weight().t()
    yield "gptq_v2", "from_gptq", tensors, {"checkpoint_format": "gptq_v2"}, decoded


def _compressed(
    layer: torch.nn.Linear, kind: str, scheme: Any, extra: Tensors
) -> tuple[Tensors, torch.Tensor]:
    from compressed_tensors.compressors import BaseCompressor

    compressor = BaseCompressor.get_value_from_registry(kind)
    state = compressor.compress({"weight": layer.weight.detach().clone(), **extra}, scheme)
    return state, compressor.decompress(state, scheme)["weight"]


def compressed_tensors() -> Iterator[Case]:
    """compressed-tensors 0.20.1."""
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    def scheme(**weights: Any) -> Any:
        return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))

    layer = linear(16, 64)
    parts = layer.weight.detach().float().unflatten(1, (-1, 32))
    scales, zeros = asymmetric(layer.weight, 32, 4)
    signed = (zeros - 8).to(torch.int8)
    args = scheme(num_bits=4, strategy="group", group_size=32, symmetric=True)
    extra = {"weight_scale": (parts.abs().amax(-1) / 7).half()}
    yield "pack_sym", "from_pack_quantized", *_without(_compressed(layer, "pack-quantized", args, extra))
    args = scheme(num_bits=4, strategy="group", group_size=32, symmetric=False)
    extra = {"weight_scale": scales, "weight_zero_point": signed}
    yield "pack_asym", "from_pack_quantized", *_without(_compressed(layer, "pack-quantized", args, extra))
    args = scheme(num_bits=8, strategy="channel", symmetric=True)
    extra = {"weight_scale": (layer.weight.detach().float().abs().amax(-1, keepdim=True) / 127).half()}
    state, _, decoded = _without(_compressed(layer, "pack-quantized", args, extra))
    yield "pack_int8", "from_pack_quantized", state, {"bits": 8}, decoded
    yield "int_quantized", "from_int_quantized", *_without(_compressed(layer, "int-quantized", args, extra))
    args = scheme(
        num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn
    )
    peak = layer.weight.detach().float().unflatten(1, (-1, 16)).abs().amax(-1)
    factor = (448 * 6 / peak.max()).reshape(1)
    extra = {
        "weight_scale": (peak * factor / 6).to(torch.float8_e4m3fn).float(),
        "weight_global_scale": factor,
    }
    state, options, decoded = _without(_compressed(layer, "nvfp4-pack-quantized", args, extra))
    yield "nvfp4_compressed_tensors", "from_nvfp4_pack_quantized", state, options, decoded
    args = scheme(num_bits=4, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8)
    extra = {"weight_scale": torch.exp2((parts.abs().amax(-1) / 6).log2().ceil())}
    state, options, decoded = _without(_compressed(layer, "mxfp4-pack-quantized", args, extra))
    renamed = {"blocks": state["weight_packed"], "scales": state["weight_scale"]}
    yield "mxfp4_compressed_tensors", "from_mxfp4", renamed, options, decoded
    args = scheme(num_bits=8, type="float", strategy="channel", symmetric=True)
    extra = {"weight_scale": (layer.weight.detach().float().abs().amax(-1, keepdim=True) / 448).bfloat16()}
    state, options, decoded = _without(_compressed(layer, "float-quantized", args, extra))
    renamed = {"weight": state["weight"], "scale": state["weight_scale"]}
    yield "fp8_channel", "from_fp8", renamed, options, decoded


def _without(compressed: tuple[Tensors, torch.Tensor]) -> tuple[Tensors, dict[str, Any], torch.Tensor]:
    state, decoded = compressed
    return {name: tensor for name, tensor in state.items() if tensor is not None}, {}, decoded


def modelopt() -> Iterator[Case]:
    """nvidia-modelopt 0.47.0."""
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    weight = linear(16, 64).weight.detach().float()
    packed, scales, factor = NVFP4QTensor.quantize(weight, 16)
    decoded = packed.dequantize(torch.float32, scale=scales, double_scale=factor, block_sizes={-1: 16})
    tensors = {"weight": packed._quantized_data, "weight_scale": scales, "weight_scale_2": factor}
    yield "nvfp4_modelopt", "from_modelopt_nvfp4", tensors, {}, decoded


def transformers() -> Iterator[Case]:
    """transformers 5.24.0: gpt-oss and DeepSeek."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    torch.manual_seed(1)
    blocks = torch.randint(0, 256, (2, 8, 2, 16), dtype=torch.uint8)
    scales = torch.randint(120, 132, (2, 8, 2), dtype=torch.uint8)
    decoded = convert_moe_packed_tensors(blocks, scales).transpose(
        1, 2
    )  # [experts, k, n], as the model has it
    yield "mxfp4_gpt_oss", "from_mxfp4", {"blocks": blocks, "scales": scales}, {}, decoded
    decode = Fp8Dequantize(None)._dequantize_one
    exponents = scales[0].view(torch.float8_e8m0fnu)
    packed = blocks[0].flatten(1).view(torch.int8)
    decoded = decode(packed, exponents, torch.float32)
    yield "mxfp4_deepseek", "from_mxfp4", {"blocks": packed, "scales": exponents}, {}, decoded
    weight = torch.randn(8, 32).to(torch.float8_e4m3fn)
    for name, grid in (("v3", torch.rand(2, 2)), ("v4", scales[0, :2].view(torch.float8_e8m0fnu))):
        decoded = decode(weight, grid, torch.float32)
        yield (
            f"fp8_deepseek_{name}",
            "from_fp8",
            {"weight": weight, "scale": grid},
            {"block": [4, 16]},
            decoded,
        )


LIBRARIES: dict[str, Callable[[], Iterator[Case]]] = {
    "autoawq": autoawq,
    "auto-gptq": auto_gptq,
    "gptqmodel": gptqmodel,
    "compressed-tensors": compressed_tensors,
    "nvidia-modelopt": modelopt,
    "transformers": transformers,
}


@torch.no_grad()
def main() -> None:
    cases = json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}
    for library, make in LIBRARIES.items():
        try:
            version = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            print(f"{library} is not installed: its vectors stay")
            continue
        for name, reader, tensors, options, decoded in make():
            cases[name] = {
                "library": f"{library} {version}",
                "reader": reader,
                "tensors": {part: written(tensor) for part, tensor in tensors.items()},
                "options": options,
                "decoded": written(decoded),
            }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in sorted(cases.items()))
    PATH.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
