"""docs/packed_weights.md: its code runs as it stands, up to the calls, which need a GPU.

tests/runtime/mixed_gemm/test_mixed_call.py makes the calls on the host, tests/gpu on a GPU.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch
from packed_weights_page import BLOCKS, PAGE, names

from tilewright import weight_layout, weights

ROOT = Path(__file__).resolve().parents[2]


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


def test_bytes_of_units_are_those_of_the_layout() -> None:
    rows = re.findall(r"^\| `(\w+)`(?:, (\d+))? \| (\d+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    for format, group, octets, bits in rows:
        kind = weight_layout.FORMATS[format]
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
