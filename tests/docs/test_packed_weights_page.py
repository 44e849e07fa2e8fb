"""The pages of packed weights: their code runs as it stands, up to the calls, which need a GPU.

tests/runtime/mixed_gemm/test_mixed_call.py makes the calls on the host, tests/gpu on a GPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch
from figures import table
from packed_weights_page import BLOCKS, PAGE, names

from tilewright import weight_formats, weights
from tilewright.declarations.table import Table

ROOT = Path(__file__).resolve().parents[2]
KERNELS = (ROOT / "docs/packed_kernels.md").read_text(encoding="utf-8")
# A row of the table of what is supported: formats of kernels.
SUPPORTED = {
    "INT4, groups of 128 or one scale a row": ["int4_g128"],
    "INT4, groups of 64": ["int4_g64"],
    "INT4, groups of 32": ["int4_g32"],
    "INT4 with zero points, groups of 128 or one scale a row": ["int4_zp_g128"],
    "INT4 with zero points, groups of 64 or 32": ["int4_zp_g64", "int4_zp_g32"],
    "MXFP4": ["mxfp4"],
    "NVFP4": ["nvfp4"],
    "INT8, groups of 128 or one scale a row": ["int8_g128"],
    "FP8 (E4M3), groups of 128 or one scale a row": ["e4m3_g128"],
}
COLUMNS = {
    "one weight": "sm90_mixed_gemm",
    "with `silu_mul`": "sm90_mixed_gemm_gated",
    "experts": "sm90_mixed_grouped_gemm",
    "experts, with `silu_mul`": "sm90_mixed_grouped_gemm_gated",
    "FP8 activations": "sm90_mixed_fp8_gemm",
    "FP8 activations, experts": "sm90_mixed_fp8_grouped_gemm",
}


def test_comments_say_what_is_read() -> None:
    namespace = names()
    printed = re.findall(r"# (QuantizedWeight\(.*\))$", "".join(code for _, code in BLOCKS), re.MULTILINE)
    assert printed == [repr(namespace[name]) for name in ("awq", "gate_up", "experts", "fp8", "int8")]


def test_weights_are_packed_and_come_back() -> None:
    namespace = names()
    awq, weight = namespace["awq"], namespace["weight"]
    assert torch.equal(weight.codes, awq.codes)
    assert torch.equal(weight.zeros, awq.zeros)
    assert torch.equal(weight.scales, awq.scales.bfloat16())
    assert [(part.n, part.k) for part in namespace["ranks"]] == [(256, 256)] * 2
    assert namespace["gate_up_packed"].global_scale == 2.0**-9
    assert namespace["experts_packed"].experts == 4


def test_every_reader_is_in_the_table() -> None:
    readers = re.findall(r"^\| [^|]+ \| `(from_\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(readers) == [name for name in weights.__all__ if name.startswith("from_")]


def kernels_of(module: str) -> set[tuple[str, str, str]]:
    """A module's formats, each with the types of A and D."""
    kernels = Table.read(ROOT / f"generated/{module}/table.json")
    configs = [kernels[name].config for name in kernels]
    return {(entry["weight_format"], entry["a"], entry.get("d", "same")) for entry in configs}


def test_products_that_kernels_compute() -> None:
    rows = {row["weight"]: row for row in table(ROOT / "docs/packed_weights.md", "| weight | one weight |")}
    assert list(rows) == list(SUPPORTED)
    for name, formats in SUPPORTED.items():
        for column, module in COLUMNS.items():
            names = {"BF16": "bf16", "FP16": "f16"}
            types = {names[word] for word in rows[name][column].split(", ") if word}
            for format in formats:
                actual = {
                    d if a == "e4m3" else a
                    for kind, a, d in kernels_of(module)
                    if kind == format and d != "f32"
                }
                assert actual == types, (name, column)


def test_weights_whose_result_may_stay_in_fp32() -> None:
    sentence = (
        "BF16 activations have that with all weights but INT4 in groups of 64 and 32, FP16 activations with "
        "INT4 in groups of 128."
    )
    assert sentence in " ".join(PAGE.split())
    kernels = kernels_of("sm90_mixed_gemm")
    in_fp32 = {(a, kind) for kind, a, d in kernels if d == "f32"}
    bf16 = {kind for kind, a, _ in kernels if a == "bf16"} - {"int4_g64", "int4_g32"}
    assert in_fp32 == {("bf16", kind) for kind in bf16} | {("f16", "int4_g128"), ("f16", "int4_zp_g128")}


def test_the_example_of_the_layout_holds() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", KERNELS, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    changed = namespace["packed"].weight != 0x88
    assert changed.nonzero().tolist() == [[1, 6529]]


def test_bytes_of_units_are_those_of_the_layout() -> None:
    rows = re.findall(r"^\| `(\w+)`(?:, (\d+))? \| (\d+) \| ([\d.]+) \|$", KERNELS, re.MULTILINE)
    assert len(rows) == 8
    for format, group, octets, bits in rows:
        kind = weight_formats.FORMATS[format]
        size = kind.record_bytes(int(group) if group else kind.groups[0])
        assert (int(octets), float(bits)) == (size, (kind.unit_bytes + size) * 8 / (64 * 128))


def test_seconds_are_those_of_the_record() -> None:
    record = json.loads((ROOT / "benchmarks/results/weight_packing.json").read_text(encoding="utf-8"))
    rows = re.findall(
        r"^\| (AWQ|GPTQ|NVFP4|MXFP4) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE
    )
    assert len(rows) == 4
    for name, *cells in rows:
        seconds = [record[name.lower()][f"{what}_cpu_s"] for what in ("read", "pack", "unpack")]
        assert [float(cell) for cell in cells] == pytest.approx(seconds, abs=0.051)
