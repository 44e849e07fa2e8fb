"""A layer of a mixture of experts with 4-bit weights: router, two products of experts, and their combination.

    python moe_layer.py --model deepseek
    python moe_layer.py --model gpt-oss --tokens 300

The weights have the names, types and shapes that a checkpoint gives them, but a small size and random bytes.
The result is compared with the definition, computed in float64 of the decoded weights, expert by expert.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import torch

import tilewright
from tilewright import weights

HIDDEN, INTERMEDIATE, EXPERTS, CHOSEN = 256, 384, 8, 2
MOST_ERROR = 1e-2  # norm of the error over that of the result: activations are rounded to BF16 three times

Checkpoint = dict[str, torch.Tensor]


class Experts(NamedTuple):
    """What the experts of a layer compute, as in the checkpoint. Biases are [experts, n] or absent."""

    gate_up: tilewright.QuantizedWeight  # [experts, 2 * intermediate, hidden]
    down: tilewright.QuantizedWeight  # [experts, hidden, intermediate]
    gate_up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


class Routes(NamedTuple):
    """The experts of each token, and the factors of what they compute: both [tokens, chosen]."""

    experts: torch.Tensor
    factors: torch.Tensor


class DeepSeek:
    """DeepSeek-V3 with the NVFP4 weights that ModelOpt writes: an MLP computes silu(gate) * up."""

    fused = True  # the first product computes the activation

    @staticmethod
    def checkpoint(generator: torch.Generator) -> Checkpoint:
        tensors = {
            "gate.weight": torch.randn((EXPERTS, HIDDEN), generator=generator) / HIDDEN**0.5,
            "gate.e_score_correction_bias": torch.randn(EXPERTS, generator=generator) / 10,
        }
        for expert in range(EXPERTS):
            scale_2 = torch.tensor(2.0**-9 * (1 + expert / EXPERTS))  # experts have scales of their own
            for name, n, k in (
                ("gate", INTERMEDIATE, HIDDEN), ("up", INTERMEDIATE, HIDDEN), ("down", HIDDEN, INTERMEDIATE),
            ):  # fmt: skip
                prefix = f"experts.{expert}.{name}_proj"
                scale = torch.rand((n, k // 16), generator=generator) * 8 + 1
                tensors[f"{prefix}.weight"] = octets(n, k // 2, generator=generator)
                tensors[f"{prefix}.weight_scale"] = scale.to(torch.float8_e4m3fn)
                tensors[f"{prefix}.weight_scale_2"] = scale_2
        return tensors

    @staticmethod
    def experts(checkpoint: Checkpoint) -> Experts:
        def read(expert: int, name: str) -> tilewright.QuantizedWeight:
            parts = ("weight", "weight_scale", "weight_scale_2")
            return weights.from_modelopt_nvfp4(
                *(checkpoint[f"experts.{expert}.{name}_proj.{part}"] for part in parts)
            )

        gate_up = [
            weights.concatenate([read(expert, "gate"), read(expert, "up")]) for expert in range(EXPERTS)
        ]
        return Experts(
            weights.stack(gate_up), weights.stack([read(expert, "down") for expert in range(EXPERTS)])
        )

    @staticmethod
    def route(x: torch.Tensor, router: Checkpoint) -> Routes:
        """Experts are chosen by biased scores, and weighted by scores without the bias."""
        scores = (x.float() @ router["gate.weight"].T).sigmoid()
        chosen = (scores + router["gate.e_score_correction_bias"]).topk(CHOSEN).indices
        factors = scores.gather(1, chosen)
        return Routes(chosen, 2.5 * factors / factors.sum(1, keepdim=True))

    @staticmethod
    def activate(gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up


class GptOss:
    """gpt-oss: MXFP4, biases, rows of gate and up in turn, and an activation that no kernel computes."""

    fused = False

    @staticmethod
    def checkpoint(generator: torch.Generator) -> Checkpoint:
        tensors = {
            "router.weight": torch.randn((EXPERTS, HIDDEN), generator=generator) / HIDDEN**0.5,
            "router.bias": torch.randn(EXPERTS, generator=generator) / 10,
        }
        for name, n, k in (("gate_up", 2 * INTERMEDIATE, HIDDEN), ("down", HIDDEN, INTERMEDIATE)):
            prefix = f"experts.{name}_proj"
            tensors[f"{prefix}_blocks"] = octets(EXPERTS, n, k // 32, 16, generator=generator)
            tensors[f"{prefix}_scales"] = octets(EXPERTS, n, k // 32, below=4, generator=generator) + 119
            tensors[f"{prefix}_bias"] = torch.randn((EXPERTS, n), generator=generator).bfloat16()
        return tensors

    @staticmethod
    def experts(checkpoint: Checkpoint) -> Experts:
        gate_up, down = (
            weights.from_mxfp4(*(checkpoint[f"experts.{name}_proj_{part}"] for part in ("blocks", "scales")))
            for name in ("gate_up", "down")
        )
        biases = (checkpoint[f"experts.{name}_proj_bias"] for name in ("gate_up", "down"))
        return Experts(gate_up, down, *biases)

    @staticmethod
    def route(x: torch.Tensor, checkpoint: Checkpoint) -> Routes:
        """The chosen experts share a softmax."""
        scores = x.float() @ checkpoint["router.weight"].to(x.device).T + checkpoint["router.bias"].to(
            x.device
        )
        highest, chosen = scores.topk(CHOSEN)
        return Routes(chosen, highest.softmax(1))

    @staticmethod
    def activate(gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up[..., ::2].clamp(max=7), gate_up[..., 1::2].clamp(-7, 7)
        return gate * (1.702 * gate).sigmoid() * (up + 1)


MODELS: dict[str, type[DeepSeek] | type[GptOss]] = {"deepseek": DeepSeek, "gpt-oss": GptOss}


def router_of(checkpoint: Checkpoint, device: str | torch.device) -> Checkpoint:
    """The router's tensors, on a device."""
    return {name: tensor.to(device) for name, tensor in checkpoint.items() if "experts." not in name}


def octets(*shape: int, generator: torch.Generator, below: int = 256) -> torch.Tensor:
    return torch.randint(0, below, shape, generator=generator).to(torch.uint8)


class Layer:
    """The layer as a server runs it: weights are packed once, when the checkpoint is loaded."""

    def __init__(self, model: type[DeepSeek] | type[GptOss], checkpoint: Checkpoint, device: str) -> None:
        self.model, self.router = model, router_of(checkpoint, device)
        experts = model.experts(checkpoint)
        self.gate_up = tilewright.pack_weight(experts.gate_up, gated=model.fused).to(device)
        self.down = tilewright.pack_weight(experts.down).to(device)
        self.biases = [
            None if bias is None else bias.to(device) for bias in (experts.gate_up_bias, experts.down_bias)
        ]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """What the layer makes of x [tokens, hidden]. The host waits for nothing, as in a CUDA graph."""
        routes = self.model.route(x, self.router)
        # A row for each expert of a token, in the order of the experts, and the row after each expert's last.
        expert_of_row, order = routes.experts.flatten().sort(stable=True)
        token_of_row = order // CHOSEN
        ends = torch.searchsorted(
            expert_of_row, torch.arange(EXPERTS, device=x.device), right=True, out_int32=True
        )
        rows = x[token_of_row]
        if self.model.fused:
            rows = tilewright.mixed_grouped_gemm(
                rows, self.gate_up, group_ends=ends, bias=self.biases[0], activation="silu_mul"
            )
        else:
            rows = tilewright.mixed_grouped_gemm(rows, self.gate_up, group_ends=ends, bias=self.biases[0])
            rows = self.model.activate(rows.float()).to(x.dtype)
        rows = tilewright.mixed_grouped_gemm(rows, self.down, group_ends=ends, bias=self.biases[1])
        weighted = rows.float() * routes.factors.flatten()[order, None]
        return torch.zeros_like(x, dtype=torch.float32).index_add_(0, token_of_row, weighted).to(x.dtype)


def definition(model: type[DeepSeek] | type[GptOss], checkpoint: Checkpoint, x: torch.Tensor) -> torch.Tensor:
    """What the layer computes, in float64 on the CPU. The router chooses as on the device of x."""
    routes = Routes(*(each.cpu() for each in model.route(x, router_of(checkpoint, x.device))))
    experts, x = model.experts(checkpoint), x.cpu().double()
    gate_up, down = experts.gate_up.dequantize(), experts.down.dequantize()
    result = torch.zeros_like(x)
    for token, expert, factor in routed_tokens(routes):
        inner = gate_up[expert] @ x[token]
        if experts.gate_up_bias is not None:
            inner += experts.gate_up_bias[expert]
        outer = down[expert] @ model.activate(inner)
        if experts.down_bias is not None:
            outer += experts.down_bias[expert]
        result[token] += factor * outer
    return result


def routed_tokens(routes: Routes) -> Iterator[tuple[int, int, float]]:
    for token, (experts, factors) in enumerate(zip(*(each.tolist() for each in routes), strict=True)):
        for expert, factor in zip(experts, factors, strict=True):
            yield token, expert, factor


def error(model: type[DeepSeek] | type[GptOss], tokens: int, device: str) -> float:
    """Runs a layer of random weights. Answers the norm of its error over the norm of its result."""
    generator = torch.Generator().manual_seed(0)
    checkpoint = model.checkpoint(generator)
    x = torch.randn((tokens, HIDDEN), generator=generator).bfloat16().to(device)
    expected = definition(model, checkpoint, x)
    actual = Layer(model, checkpoint, device)(x).cpu().double()
    return float((actual - expected).norm() / expected.norm())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=MODELS, default="deepseek")
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("expected a Hopper GPU, and torch finds none")
    actual = error(MODELS[options.model], options.tokens, "cuda")
    print(f"{options.model}, {options.tokens} tokens: error {actual:.2e}, at most {MOST_ERROR:.0e} expected")
    if not actual <= MOST_ERROR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
