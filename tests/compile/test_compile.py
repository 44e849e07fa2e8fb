"""Real nvcc on real kernels: the right tensor-core instructions, launch dependencies, no spills.

Uses the build cache of whoever runs it, so a second run compiles nothing. Without it: about a minute a
kernel on one core. No toolchain is a failure here, not a reason to skip: leave these out with
`-m "not compile"`.
"""

from __future__ import annotations

import re

import pytest
from compiled_kernels import KERNELS, Compiled

pytestmark = pytest.mark.compile


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, compiled: dict[str, Compiled]) -> Compiled:
    return compiled[request.param]


def test_computes_on_tensor_cores(kernel: Compiled) -> None:
    """With nothing but the instruction it is made for: its own types, its own scales."""
    opcodes, expected = kernel.report["tensor_instructions"], KERNELS[kernel.record.name]
    assert opcodes
    assert all(f"{opcode}.".startswith(f"{expected}.") for opcode in opcodes), opcodes
    assert all(any(re.match(pattern, opcode) for opcode in opcodes) for pattern in kernel.record.instructions)


def test_nothing_is_found_wrong(kernel: Compiled) -> None:
    """Also that nothing serialises wgmma, of which ptxas warns."""
    assert kernel.report["warnings"] == []
    assert kernel.report["findings"] == []


def test_keeps_its_registers(kernel: Compiled) -> None:
    row = kernel.report
    assert kernel.record.spills == ""  # its table knows no reason for any
    assert row["spill_store_bytes"] == row["spill_load_bytes"] == row["stack_bytes"] == 0
    assert 0 < row["registers"] <= min(255, 65536 // row["threads"] // 8 * 8)


def test_waits_for_the_previous_kernel(kernel: Compiled) -> None:
    # griddepcontrol.wait is ACQBULK, griddepcontrol.launch_dependents is PREEXIT.
    waits = kernel.report["grid_dependency"].get("ACQBULK", 0) > 0
    assert waits == kernel.record.config["pdl"]


def test_agrees_with_its_table(kernel: Compiled) -> None:
    assert kernel.report["smem_bytes"] == kernel.record.facts["smem_bytes"]
    assert kernel.report["threads"] == kernel.record.facts["threads"]
