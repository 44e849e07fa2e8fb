"""Layers of experts, and the rows that a random router gives each of them."""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import torch
from benchmarks.lib import beside_peers
from benchmarks.lib.beside_peers import Row

from tilewright.tools.measuring import copies

W = TypeVar("W", bound="LayerWeights")

ROUNDS = 5
SETS = 2  # stacks of weights: one of them exceeds L2
ROUTINGS = 4  # choices of experts, in turn


class Layer(NamedTuple):
    """A linear layer of a model's experts."""

    model: str
    format: str
    experts: int
    chosen: int  # experts of a token
    n: int
    k: int


class LayerWeights:
    """Several stacks of a layer's packed weights, for all numbers of tokens. Their bytes are random."""

    def __init__(self, layer: Layer, measuring: ModuleType, problem: type) -> None:
        self.layer = layer
        self.generator = torch.Generator("cuda").manual_seed(0)
        self.problem = problem(layer.experts, layer.n, layer.k, layer.experts, weight_format=layer.format)
        self.sets = copies(measuring.make(self.problem, self.generator), SETS)

    def compile_peer(self, tokens: int) -> None:
        """Compiles the peer's kernels for a number of tokens: none, unless a subclass has such a peer."""


def routed(tokens: int, layer: Layer, generator: torch.Generator) -> torch.Tensor:
    """The ends of the experts' rows. Each token chooses its experts at random."""
    chance = torch.rand((tokens, layer.experts), generator=generator, device=generator.device)
    return group_ends(chance.topk(layer.chosen, 1).indices, layer.experts)


def routings(tokens: int, layer: Layer, generator: torch.Generator) -> list[torch.Tensor]:
    """The ends of the experts' rows for several choices. One token chooses other experts each time, if there
    are enough, so that none is in L2."""
    if tokens == 1 and layer.chosen * ROUTINGS <= layer.experts:
        order = torch.randperm(layer.experts, generator=generator, device=generator.device)
        choices = order[: layer.chosen * ROUTINGS].split(layer.chosen)
        return [group_ends(experts, layer.experts) for experts in choices]
    return [routed(tokens, layer, generator) for _ in range(ROUTINGS)]


def group_ends(chosen: torch.Tensor, experts: int) -> torch.Tensor:
    """The ends of the experts' rows, which are in the order of the experts that tokens have chosen."""
    return torch.bincount(chosen.flatten(), minlength=experts).cumsum(0).int()


def humming_layouts(ends: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The ends of the experts' rows as Humming reads them: with a zero in front."""
    return [torch.nn.functional.pad(groups, (1, 0)).long() for groups in ends]


def touched_experts(ends: Sequence[torch.Tensor]) -> float:
    """The mean number of experts that have rows."""
    return sum(int((groups.diff(prepend=groups.new_zeros(1)) > 0).sum()) for groups in ends) / len(ends)


def weight_bytes(stack: Any, ends: Sequence[torch.Tensor]) -> float:
    """The mean bytes of the experts' weights and scales that a launch reads."""
    return touched_experts(ends) * float(stack.weight[0].numel() + stack.scale[0].numel())


def decoded(weights: LayerWeights, measuring: ModuleType) -> torch.Tensor:
    """The weights of all experts in BF16."""
    stack, problem = weights.sets[0], weights.problem
    return torch.stack(
        [
            measuring.decoded_group(stack.weight, stack.scale, group, problem).bfloat16()
            for group in range(problem.groups)
        ]
    )


def run(
    module: str,
    options: argparse.Namespace,
    layers: Sequence[Layer],
    tokens: Sequence[int],
    weights_of: Callable[[Layer], W],
    *,
    measure: Callable[[W, int], Row],
    markdown: Callable[[dict[str, str], list[Row]], Iterator[str]],
    keep_rows: bool = False,
) -> None:
    """Measures each layer for each number of tokens, as `beside_peers.run` does."""
    weights = functools.lru_cache(maxsize=1)(weights_of)  # those of one layer fill much of the memory
    beside_peers.run(
        module, options, list(itertools.product(layers, tokens)),
        compile_peer=lambda case: weights(case[0]).compile_peer(case[1]),
        measure=lambda case: measure(weights(case[0]), case[1]),
        markdown=markdown, keep_rows=keep_rows,
    )  # fmt: skip
