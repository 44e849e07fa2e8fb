"""Kernels in CuTe-DSL quantise to the reference's bits: their PTX runs here, instruction by instruction, on a
machine of the PTX ISA (ptx_machine.py), as their host code launches it."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quantize_inputs as inputs
import quantize_reference as of
import torch
from cute_dsl_ptx import ptx_of
from ptx_machine import Launch, StuckError
from ptx_memory import Memory, TensorMap
from ptx_program import Program

from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.compile.cute_dsl import installed
from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.declarations.table import KernelRecord, Table
from tilewright.declarations.tactics import Tactic
from tilewright.families.quantize.config import QuantizeConfig
from tilewright.families.quantize.family import FAMILY
from tilewright.families.quantize.memory import box
from tilewright.families.quantize.problem import LAYOUTS, SCALE_LAYOUTS, Problem
from tilewright.formats.types import bits
from tilewright.libraries.registry import Registry

pytestmark = pytest.mark.compile
needs_cute_dsl = pytest.mark.skipif(bool(installed.lacking()), reason=f"a kernel here {installed.lacking()}")

ROOT = Path(__file__).parents[2]
TABLE = Table.read(ROOT / "generated" / "quantize_cute" / "table.json")
NOT_SUPPORTED = "-1"
Host = Callable[..., list[str]]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Launches a kernel; the lines that quantize_launch.cc prints."""
    toolchain, program = find_toolchain(), tmp_path_factory.mktemp("launch") / "quantize_launch"
    command = [
        *toolchain.host, "-std=c++17", f"-I{paths.include_dir()}", f"-isystem{toolchain.include}",
        str(Path(__file__).with_name("quantize_launch.cc")), "-o", str(program),
    ]  # fmt: skip
    subprocess.run(command, check=True)

    def run(*numbers: int) -> list[str]:
        words = [str(program), *(str(int(number)) for number in numbers)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    return run


def facts(record: KernelRecord) -> tuple[int, ...]:
    """What the kernel's unit tells its host code."""
    config = QuantizeConfig(**record.config)
    return (
        bits(config.x), *box(config), config.variant == "tma", record.facts["threads"],
        record.facts["smem_bytes"],
    )  # fmt: skip


def memory_of(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """All bytes of a tensor's storage."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()).numpy()  # type: ignore[no-any-return]


def launch(
    host: Host, record: KernelRecord, run: of.Run, program: str, *, blocks: int, sms: int, late: bool
) -> None:
    """Runs a case as the host code launches it."""
    case, memory = run.case, Memory()
    x = case.x.view(-1, *case.x.shape[-2:])
    data = of.as_bytes(run.data).view(-1, *run.data.shape[-2:])
    scale = case.global_scale
    scale = torch.as_tensor(scale, dtype=torch.float32).reshape(-1) if scale is not None else None
    tensors = (case.x, run.data, run.scales, scale, case.rows_valid)
    addresses = [memory.add(memory_of(tensor)) if tensor is not None else 0 for tensor in tensors]
    groups, m, k = x.shape
    per_row = scale is not None and scale.numel() > 1
    lines = host(
        *facts(record), *addresses, m, k, groups, x.stride(1), x.stride(0),
        2 * data.stride(1), 2 * data.stride(0), SCALE_LAYOUTS.index(case.layout), per_row, blocks, sms,
    )  # fmt: skip
    said = dict(line.split(" ", 1) for line in lines)
    assert said["status"] == "0"
    numbers = [int(word) for word in said["parameters"].split()]
    parameters: list[Any] = [struct.pack("q", number) for number in numbers[:10]]
    parameters += [struct.pack("i", number) for number in numbers[10:]]
    if record.config["variant"] == "tma":
        parameters += [tensor_map(said["map"], bits(record.config["x"]) // 8)]
        parameters += [struct.pack("3i", *map(int, said["extents"].split()))]
    grid = int(said["grid"].split()[0])
    Launch(Program(program), 1, grid, record.facts["smem_bytes"], memory, parameters, late).run()


def tensor_map(text: str, size: int) -> TensorMap:
    """A map as quantize_launch.cc prints it."""
    words = text.replace(":", "").split()
    extents, strides, sides = words[1:4], words[5:7], words[8:10]
    return TensorMap(
        int(words[0], 16),
        size,
        tuple(map(int, extents)),
        tuple(map(int, strides)),
        tuple(map(int, sides)),
        128,
    )  # type: ignore[arg-type]


def cases(x: str) -> Iterator[of.Case]:
    """Ragged extents, padding in every layout, groups, rows that do not count, all kinds of global scales."""
    for layout in LAYOUTS["nvfp4"]:
        value = inputs.randoms((37, 80), x, 1)
        yield of.Case("nvfp4", value, layout, inputs.global_scale_of(value))
    yield of.Case("nvfp4", inputs.randoms((270, 16), x, 2), "128x4")
    wider = inputs.randoms((11, 80 + 128 // bits(x)), x, 4)  # rows begin at odd multiples of 16 bytes, too
    yield of.Case("nvfp4", wider[:, :80], "linear")
    stacked = inputs.randoms((2, 11, 80), x, 3)
    per_row = torch.arange(1.0, 23.0).view(2, 11)
    yield of.Case("nvfp4", stacked, "8x4", per_row, torch.tensor([7, 0], dtype=torch.int32))


SOME = "quantize_sm90_nvfp4_bf16_tma_2stages_cute_dsl"


@needs_cute_dsl
@pytest.mark.parametrize("name", [name for name in TABLE if TABLE[name].arch in ("sm_90a", "sm_120f")])
def test_a_kernel_writes_the_references_bits(host: Host, name: str) -> None:
    record = TABLE[name]
    for i, case in enumerate(cases(record.config["x"])):
        run = of.Run(case)
        launch(host, record, run, ptx_of(TABLE, record), blocks=i % 2, sms=2, late=i % 2 == 0)
        run.check_bits()


@needs_cute_dsl
def test_a_wait_that_is_lacking_shows(host: Host) -> None:
    """A load that does not wait for the threads that read its stage overwrites what they read."""
    text, record = ptx_of(TABLE, TABLE[SOME]), TABLE[SOME]
    at = text.rindex("mbarrier.try_wait", 0, text.index("cp.async.bulk.tensor"))
    begin, end = text.rindex("{", 0, at), text.index("}", at) + 1
    value = inputs.randoms((8, 1024), "bf16", 4)
    run = of.Run(of.Case("nvfp4", value, "linear", 150.0))

    def check(program: str) -> None:
        launch(host, record, run, program, blocks=1, sms=1, late=True)
        run.check_bits()

    check(text)
    with pytest.raises((AssertionError, StuckError)):
        check(text[:begin] + text[end:])


def described(host: Host, name: str = SOME, **changes: int) -> dict[str, str]:
    """What a launch asks of the driver, and its status."""
    numbers = {
        "x": 0x1000, "data": 0x2000, "scales": 0x3000, "global_scale": 0, "rows_valid": 0, "m": 300, "k": 208,
        "groups": 3, "ld_x": 208, "stride_x": 300 * 208, "ld_data": 208, "stride_data": 300 * 208,
        "layout": 0, "per_row": 0, "blocks": 0, "sms": 132,
    }  # fmt: skip
    lines = host(*facts(TABLE[name]), *(numbers | changes).values())
    return dict(line.split(" ", 1) for line in lines)


def test_a_box_is_a_line_of_256_rows(host: Host) -> None:
    said = described(host)
    assert said["map"] == "0x1000: 208 300 3 strides 416 124800 box 64 256 1"
    assert said["extents"] == "300 208 3"
    assert said["grid"] == "24 threads 288 shared 67584"  # 2 boxes down, 4 across, 3 groups
    assert said["pdl"] == "1"


def test_bytes_of_e4m3_fill_a_line_with_128_columns(host: Host) -> None:
    said = described(host, SOME.replace("bf16", "e4m3"))
    assert said["map"] == "0x1000: 208 300 3 strides 208 62400 box 128 128 1"
    assert said["grid"] == "18 threads 288 shared 37888"


def test_one_matrix_serves_all_groups(host: Host) -> None:
    said = described(host, stride_x=0)
    assert said["map"] == "0x1000: 208 300 1 strides 416 416 box 64 256 1"
    assert said["extents"] == "300 208 1"


def test_vectors_need_no_map(host: Host) -> None:
    said = described(host, SOME.replace("tma_2stages", "vector"))
    assert "map" not in said
    assert said["grid"] == "36 threads 256 shared 1024"  # 384 padded rows by 32, 208 columns by 512


@pytest.mark.parametrize(
    "change",
    [
        {"x": 0x1008},
        {"ld_x": 204},
        {"stride_x": 62404},
        {"data": 0x2004},
        {"ld_data": 216},
        {"k": 200},
        {"layout": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_kernels_cannot_take_is_refused(host: Host, change: dict[str, int]) -> None:
    assert described(host, **change) == {"status": NOT_SUPPORTED}


def test_selection_leaves_them_to_calls_that_name_them() -> None:
    registry, problem = Registry(), Problem(4096, 4096)
    records = registry.runnable("quantize", H200.capability)
    assert SOME in {record.name for record in records}
    assert SOME not in {record.name for record in FAMILY.fitting(records, problem)}
    assert FAMILY.legal(registry, records, problem, H200, Tactic(SOME)).name == SOME
