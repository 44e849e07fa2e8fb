"""The layers that real libraries packed (tests/runtime/weights/data/golden_weights.json)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

PATH = Path(__file__).resolve().parents[1] / "runtime/weights/data/golden_weights.json"


class Golden(NamedTuple):
    """A layer as a library packed it, and the weight that the library decodes."""

    library: str
    reader: str
    tensors: dict[str, torch.Tensor]
    options: dict[str, Any]
    decoded: torch.Tensor


def read(tensor: dict[str, Any]) -> torch.Tensor:
    octets = torch.frombuffer(bytearray(base64.b64decode(tensor["base64"])), dtype=torch.uint8)
    return octets.view(getattr(torch, tensor["dtype"])).reshape(tensor["shape"])


def golden() -> dict[str, Golden]:
    cases = json.loads(PATH.read_text(encoding="utf-8"))
    return {
        name: Golden(
            library=case["library"],
            reader=case["reader"],
            tensors={part: read(tensor) for part, tensor in case["tensors"].items()},
            options=case["options"],
            decoded=read(case["decoded"]),
        )
        for name, case in cases.items()
    }
