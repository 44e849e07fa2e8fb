"""Arguments of the MQA ops, for kernels of the host: 16 heads of 32, of FP4 of 64."""

from __future__ import annotations

from typing import Any

import torch

HEADS, HEAD_DIM, PAGE = 16, 32, 32
FP4_BYTES = 32  # of a head


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def ragged() -> dict[str, Any]:
    return {
        "q": random(5, HEADS, HEAD_DIM).to(torch.float8_e4m3fn),
        "kv": random(70, HEAD_DIM, seed=1).to(torch.float8_e4m3fn),
        "kv_scale": random(70, seed=2).abs(), "weights": random(5, HEADS, seed=3),
        "starts": torch.tensor([0, 3, 60, 9, 0], dtype=torch.int32),
        "ends": torch.tensor([70, 4, 80, 9, 33], dtype=torch.int32), "out": torch.zeros(5, 70),
    }  # fmt: skip


def fp4(*shape: int, seed: int) -> torch.Tensor:
    """64 elements, two to a byte."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (*shape, FP4_BYTES), generator=generator, dtype=torch.uint8)


def words(*shape: int, seed: int) -> torch.Tensor:
    """Words of exponents; beyond those of 64 elements stands what nobody may read."""
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.randint(120, 134, (*shape, 4), generator=generator, dtype=torch.uint8)
    exponents[..., 2:] = 255
    return exponents.view(torch.int32).squeeze(-1)


def ragged_fp4() -> dict[str, Any]:
    return ragged() | {
        "q": fp4(5, HEADS, seed=4), "q_scale": words(5, HEADS, seed=5),
        "kv": fp4(70, seed=6), "kv_scale": words(70, seed=7),
    }  # fmt: skip


def compressed() -> dict[str, Any]:
    return ragged() | {"columns": 40, "out": torch.zeros(5, 40)}


def paged() -> dict[str, Any]:
    """Two sequences of two queries."""
    cache = torch.zeros(6, PAGE * (HEAD_DIM + 4), dtype=torch.uint8)
    cache[:, : PAGE * HEAD_DIM] = random(6, PAGE * HEAD_DIM).to(torch.float8_e4m3fn).view(torch.uint8)
    cache[:, PAGE * HEAD_DIM :] = random(6, PAGE, seed=1).abs().view(torch.uint8)
    return {
        "q": random(4, HEADS, HEAD_DIM, seed=2).to(torch.float8_e4m3fn), "kv_cache": cache,
        "weights": random(4, HEADS, seed=3), "lengths": torch.tensor([70, 40], dtype=torch.int32),
        "block_table": torch.tensor([[4, 0, 5], [2, 1, 3]], dtype=torch.int32),
        "schedule": torch.zeros(9, 2, dtype=torch.int32), "keys": 80, "clean": True,
        "out": torch.zeros(4, 80),
    }  # fmt: skip


def paged_fp4() -> dict[str, Any]:
    cache = torch.zeros(6, PAGE * (FP4_BYTES + 4), dtype=torch.uint8)
    cache[:, : PAGE * FP4_BYTES] = fp4(6, PAGE, seed=4).view(6, -1)
    cache[:, PAGE * FP4_BYTES :] = words(6, PAGE, seed=5).view(torch.uint8)
    return paged() | {"q": fp4(4, HEADS, seed=6), "q_scale": words(4, HEADS, seed=7), "kv_cache": cache}


def variable() -> dict[str, Any]:
    """Four queries, the second and third of one sequence."""
    table = torch.tensor([[4, 0, 5], [2, 1, 3], [2, 1, 3], [0, 0, 0]], dtype=torch.int32)
    lengths = torch.tensor([70, 39, 40, 0], dtype=torch.int32)
    indices = torch.tensor([0, 1, 1, 2], dtype=torch.int32)
    return paged() | {"block_table": table, "lengths": lengths, "indices": indices}


def of_lengths() -> dict[str, Any]:
    lengths = torch.tensor([7000, 0, 300, 256], dtype=torch.int32)
    return {"lengths": lengths, "blocks": 7, "next_n": 2, "out": torch.zeros(8, 2, dtype=torch.int32)}


def of_tokens() -> dict[str, Any]:
    arguments = of_lengths() | {"next_n": 1}
    return arguments | {"indices": torch.tensor([0, 0, 1, 1], dtype=torch.int32)}
