"""Which kinds of kernels CUTLASS's block-scaled products have on B200 and Thor, by pairs of formats.

A model with MXFP4 weights, or with activations of MXFP8 beside them, needs the choice of a model of NVFP4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from command_line import ROOT

Config = dict[str, Any]
NVFP4, MXFP4, MXFP8, MIXED = PAIRS = (
    "nvfp4 x nvfp4", "mxfp4 x mxfp4", "mxfp8 x mxfp8", "mxfp8 x mxfp4",
)  # fmt: skip
KINDS: dict[str, Callable[[Config], bool]] = {
    "many rows": lambda config: not config["swap_ab"],
    "many rows, bias": lambda config: not config["swap_ab"] and config["bias"],
    "few rows": lambda config: config["swap_ab"],
    "few rows, bias": lambda config: config["swap_ab"] and config["bias"],
    "C": lambda config: bool(config["c"] == "same"),
    "192 columns": lambda config: bool(config["tile"][1] == 192),
    "256 columns": lambda config: bool(config["tile"][1] == 256),
    "stream-K": lambda config: bool(config["scheduler"] == "stream_k"),
}
# What pairs of formats lack, by kind, of the kinds above. No pair has a kind that stands without pairs.
LACKING: dict[tuple[str, str], dict[str, set[str]]] = {
    ("sm_100f", "bf16"): {},
    ("sm_100f", "f16"): {"stream-K": {*PAIRS}},
    ("sm_110a", "bf16"): {
        "192 columns": {*PAIRS},
        "256 columns": {*PAIRS},
        "stream-K": {*PAIRS},
    },
}


def _configs(arch: str, d: str) -> Iterator[Config]:
    for path in (ROOT / "generated").glob("*/table.json"):
        table = json.loads(path.read_text())
        rows = table["kernels"] if table["family"] == "blockscaled_gemm" else ()
        for config in ({"bias": False, "mainloop": "default", **row["config"]} for row in rows):
            if (config["arch"], config["d"], config["mainloop"]) == (arch, d, "default"):
                yield config


@pytest.mark.parametrize(("arch", "d"), LACKING)
def test_a_pair_of_formats_has_the_kinds_of_kernels_of_the_others(arch: str, d: str) -> None:
    """A kind that one pair gains, the others gain as well, or the list above says that they lack it."""
    missing = {kind: {*PAIRS} for kind in KINDS}
    for config in _configs(arch, d):
        for kind, has in KINDS.items():
            if has(config):
                missing[kind].discard(f"{config['a']} x {config['b']}")
    assert {kind: pairs for kind, pairs in missing.items() if pairs} == LACKING[arch, d]
