"""Quantising kernels of this GPU, checked bit for bit and timed, without the op in between.

    python benchmarks/quantize_smoke.py --check            every kernel against tilewright.reference
    python benchmarks/quantize_smoke.py --time             the large kernels beside a copy of as many bytes

Builds nothing: `tilewright build quantize` first. Checks cover odd shapes, every scale layout, zeros,
subnormals, infinities, NaN and values next to rounding boundaries; buffers are poisoned before each call.
Exits with 1 if a bit differs. Times are CUDA graphs of calls on buffers in turn, medians of replays; a ratio
is the copy's time over the kernel's.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tilewright import reference, routing
from tilewright.library import Library
from tilewright.reference.blockwise import dequantize_fp8_blockwise, quantize_fp8_blockwise
from tilewright.reference.fusions import rms_norm, silu_mul
from tilewright.registry import Registry
from tilewright.scale_factors import padded_shape
from tilewright.table import KernelRecord

LAYOUTS = {"128x4": 0, "8x4": 1, "linear": 2, "row_major": 3, "m_major": 4, "packed": 5}
TYPES = {
    "bf16": (10, torch.bfloat16),
    "f16": (11, torch.float16),
    "f32": (12, torch.float32),
    "e4m3": (13, torch.float8_e4m3fn),
}
FORMATS = {"nvfp4": 0, "mxfp4": 1, "mxfp8": 2, "mxfp8_e5m2": 3, "fp8_1x128": 4, "fp8_128x128": 5}
ODD = ((1, 16), (120, 64), (129, 80), (200, 256), (5, 528), (33, 1040), (257, 640))
LARGE = ((1023, 7168), (2048, 2048))
TIMED = ((128, 512), (4096, 4096), (16384, 8192), (32768, 16384))
FUSED_SHARE = 0.002  # of elements and scales that fused or fast arithmetic may move by one step


class Case(NamedTuple):
    """One call: the operands, and how they are described."""

    x: torch.Tensor  # [groups, m, k], or 2k
    layout: str
    global_scale: torch.Tensor | None
    rows_valid: torch.Tensor | None
    what: str


@dataclass
class Buffers:
    """What a kernel writes; `storage` is all of the scales' memory."""

    data: torch.Tensor
    scales: torch.Tensor
    storage: torch.Tensor

    @classmethod
    def make(cls, record: KernelRecord, sizes: tuple[int, int, int], layout: str, device: str) -> Buffers:
        """Poisoned, for (groups, m, k)."""
        groups, m, k = sizes
        form = record.config["format"]
        width = k // 2 if form.endswith("fp4") else k
        data = torch.full((groups, m, width), 0xAB, dtype=torch.uint8, device=device)
        if not form.startswith("fp8"):
            shape = padded_shape(m, k, 16 if form == "nvfp4" else 32, layout)  # type: ignore[arg-type]
            storage = torch.full((groups, *shape), 0xAB, dtype=torch.uint8, device=device)
            return cls(data, storage, storage)
        columns = -(-k // 128)
        if layout == "row_major":
            rows = m if form == "fp8_1x128" else -(-m // 128)
            storage = torch.full((groups, rows, columns), 123.0, device=device)
            return cls(data, storage, storage)
        wide = columns if layout == "m_major" else -(-columns // 4)
        kind = torch.float32 if layout == "m_major" else torch.int32
        storage = torch.full((groups, wide, -(-m // 4) * 4), 123, dtype=kind, device=device)
        return cls(data, storage[:, :, :m].transpose(1, 2), storage)


def options(record: KernelRecord, layout: str, per_row: bool, blocks: int, sms: int) -> tuple[int, ...]:
    config = record.config
    return (sms, blocks, LAYOUTS[layout], TYPES[config["x"]][0], FORMATS[config["format"]], int(per_row))


def layouts_of(form: str) -> tuple[str, ...]:
    if form == "fp8_1x128":
        return ("m_major", "row_major", "packed")
    return ("row_major", "packed") if form == "fp8_128x128" else ("128x4", "8x4", "linear")


def numbers(kind: str, shape: tuple[int, ...], dtype: torch.dtype, seed: int, device: str) -> torch.Tensor:
    """Values of a kind: random, special (infinities, NaN, subnormals, zeros) or boundary."""
    made = torch.Generator().manual_seed(seed)
    if dtype == torch.float8_e4m3fn:
        codes = torch.randint(0, 256, shape, generator=made, dtype=torch.uint8)
        if kind != "special":
            codes = torch.where((codes & 0x7F) == 0x7F, 0x30, codes)
        return codes.view(dtype).to(device)
    x = torch.randn(shape, generator=made)
    x *= torch.exp2(torch.randint(-12, 12, (*shape[:-1], 1), generator=made).float())
    if kind == "boundary":  # next to where E2M1, E4M3 or E5M2 round, at any power of two
        significands = torch.tensor([1.0, 1.25, 1.5, 1.75, 1.0625, 1.1875, 1.125, 1.875, 1.3125])
        pick = torch.randint(0, len(significands), shape, generator=made)
        power = torch.exp2(torch.randint(-4, 3, shape, generator=made).float())
        x = significands[pick] * power * torch.where(x < 0, -1.0, 1.0)
        nudge = torch.randint(-1, 2, shape, generator=made)
        bits = x.view(torch.int32) + nudge * (1 if dtype == torch.float32 else 0)
        x = bits.view(torch.float32)
        x[..., ::16] = torch.where(x[..., ::16] < 0, -6.0, 6.0)
    if kind == "special":
        odd = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -3e-39, 1e-38, 3e38, -3e38, 1e-30]
        pick = torch.randint(0, len(odd), shape, generator=made)
        chance = torch.rand((*shape[:-1], 1), generator=made) * 0.2
        x = torch.where(torch.rand(shape, generator=made) < chance, torch.tensor(odd)[pick], x)
        quiet = torch.randint(0, 6, (*shape[:-1], shape[-1] // 16), generator=made).repeat_interleave(
            16, dim=-1
        )
        x = torch.where(quiet == 0, x.sign() * 0.0, x)
        x = torch.where(quiet == 1, x * 1e-36, x)
    return x.to(dtype).to(device)


def cases(record: KernelRecord, large: bool, device: str) -> Iterator[Case]:
    """What a kernel is checked with."""
    form, dtype = record.config["format"], TYPES[record.config["x"]][1]
    parts = 2 if record.config["fusion"] == "silu_mul" else 1
    kinds = ("random", "boundary", "special") if record.config["fusion"] == "none" else ("random",)
    for seed, ((m, k), layout, kind) in enumerate(
        itertools.product(ODD + (LARGE if large else ()), layouts_of(form), kinds)
    ):
        x = numbers(kind, (1, m, parts * k), dtype, seed, device)
        scale = None
        if form == "nvfp4":
            finite = torch.where(x.float().isfinite(), x.float(), 0.0)
            scale = reference.nvfp4_global_scale(finite)
        yield Case(x, layout, scale, None, f"{m}x{k} {layout} {kind}")
    for seed, layout in enumerate(layouts_of(form)):
        m, k = 150, 272
        x = numbers("random", (3, m, parts * k), dtype, 1000 + seed, device)
        valid = torch.tensor([150, 0, 37], dtype=torch.int32, device=device)
        scale = reference.nvfp4_global_scale(x, dim=-1).contiguous() if form == "nvfp4" else None
        yield Case(x, layout, scale, valid, f"3x{m}x{k} {layout} masked, a global scale a row")
        if form == "nvfp4":
            for value in (float("inf"), 0.0, 1e-38, 3e38, -2.0, float("nan"), 1.0):
                x = numbers("special", (1, 40, parts * 160), dtype, 2000 + seed, device)
                scale = torch.tensor(value, device=device)
                if record.config["fusion"] == "none" and record.config["arithmetic"] == "exact":
                    yield Case(x, layout, scale, None, f"40x160 {layout} special, global scale {value}")


def expected(
    record: KernelRecord, case: Case, weight: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    x, config = case.x, record.config
    if config["fusion"] == "silu_mul":
        x = silu_mul(x)
    elif config["fusion"] == "rmsnorm":
        assert weight is not None
        x = rms_norm(x, weight, 1e-5)
    form = config["format"]
    if form.startswith("fp8"):
        block = (1, 128) if form == "fp8_1x128" else (128, 128)
        kind = "ue8m0" if case.layout == "packed" else "float32"
        data, scales = quantize_fp8_blockwise(
            x,
            block,
            kind,
            case.layout,
            rows_valid=case.rows_valid,  # type: ignore[arg-type]
        )
        return data.view(torch.uint8), scales
    scale = case.global_scale
    data, scales = reference.quantize(
        x,
        form,
        scale,
        case.layout,
        rows_valid=case.rows_valid,  # type: ignore[arg-type]
    )
    return data.view(torch.uint8), scales.view(torch.uint8)


def different(record: KernelRecord, case: Case, library: Library, blocks: int, sms: int) -> str:
    """What is wrong with one call, or nothing."""
    config = record.config
    groups, m = case.x.shape[:2]
    k = case.x.shape[2] // (2 if config["fusion"] == "silu_mul" else 1)
    device = str(case.x.device)
    weight = None
    if config["fusion"] == "rmsnorm":
        weight = numbers("random", (1, k), case.x.dtype, 7, device).reshape(k)
    out = Buffers.make(record, (groups, m, k), case.layout, device)
    per_row = case.global_scale is not None and case.global_scale.numel() > 1
    launcher = library.launcher(record.name, options(record, case.layout, per_row, blocks, sms))
    status = launcher(case.x, weight, case.global_scale, case.rows_valid, out.data, out.scales, 1e-5, None)
    if status != 0:
        return f"status {status}"
    if case.x.is_cuda:
        torch.cuda.synchronize()
    data, scales = expected(record, case, weight)
    if case.rows_valid is not None:
        rows = torch.arange(m, device=case.x.device)[None, :] >= case.rows_valid[:, None]
        if bool((out.data[rows] != 0xAB).any()):
            return "data of rows that do not count were written"
        data = torch.where(rows[..., None], out.data, data)
    if out.scales is not out.storage and bool((out.storage[:, :, m:] != 0).any()):
        return "the padding of the scales is not 0"
    wrong_data = out.data != data
    wrong_scales = out.scales != scales
    if scales.is_floating_point():
        wrong_scales &= ~(out.scales.isnan() & scales.isnan())
    loose = config["fusion"] != "none" or config["arithmetic"] == "fast"
    allowed = FUSED_SHARE if loose else 0.0
    found = []
    if loose and scales.is_floating_point():
        wrong_scales = (out.scales - scales).abs() > scales.abs() * 2.0**-18
    for name, wrong, ours, theirs in (
        ("data", wrong_data, out.data, data),
        ("scales", wrong_scales, out.scales, scales),
    ):
        share = float(wrong.float().mean())
        if share > allowed + (0.01 if loose and wrong.numel() < 20000 else 0.0):
            at = wrong.nonzero()[0].tolist()
            first = f"first at {at}: {ours[tuple(at)].item()} for {theirs[tuple(at)].item()}"
            found.append(f"{name}: {int(wrong.sum())} of {wrong.numel()} differ, {first}")
    return "; ".join(found)


def back(record: KernelRecord, library: Library, device: str) -> list[str]:
    """What a dequantising kernel gets wrong."""
    form, dtype = record.config["format"], TYPES[record.config["x"]][1]
    wrong = []
    for (m, k), layout in itertools.product(ODD, layouts_of(form)):
        x = numbers("special", (2, m, k), torch.float32, m + k, device)
        x = torch.where(x.isfinite(), x, 1.0) if form.startswith("fp8") else x
        scale = torch.tensor(3.7, device=device) if form == "nvfp4" else None
        if form.startswith("fp8"):
            block = (1, 128) if form == "fp8_1x128" else (128, 128)
            kind = "ue8m0" if layout == "packed" else "float32"
            data, scales = quantize_fp8_blockwise(x, block, kind, layout)  # type: ignore[arg-type]
            want = dequantize_fp8_blockwise(data, scales, block, dtype=dtype)
        else:
            data, scales = reference.quantize(x, form, scale, layout)  # type: ignore[arg-type]
            want = reference.dequantize(
                data,
                scales,
                form,
                k,
                global_scale=scale,
                layout=layout,
                dtype=dtype,  # type: ignore[arg-type]
            )
            scales = scales.view(torch.uint8)
        got = torch.full((2, m, k), 77.0, dtype=dtype, device=device)
        launcher = library.launcher(record.name, options(record, layout, False, 0, 1))
        status = launcher(got, None, scale, None, data.view(torch.uint8), scales, 0.0, None)
        differ = (got != want) & ~(got.isnan() & want.isnan())
        if status != 0 or bool(differ.any()):
            at = differ.nonzero()[0].tolist() if bool(differ.any()) else []
            seen = f"{got[tuple(at)].item()} for {want[tuple(at)].item()}" if at else ""
            wrong.append(f"{m}x{k} {layout}: status {status}, {int(differ.sum())} differ, first {at}: {seen}")
    return wrong


def check(
    records: list[KernelRecord], libraries: dict[str, Library], device: str, large: bool, sms: int
) -> bool:
    """Every kernel; prints what is wrong."""
    right = True
    for record in records:
        library, wrong, count = libraries[record.name], [], 0
        if record.config["direction"] == "dequantize":
            wrong, count = back(record, library, device), 1
        else:
            for case in cases(record, large, device):
                for blocks, limit in ((0, sms), (1, sms), (0, 0)):  # the last: tasks as long as they get
                    count += 1
                    if message := different(record, case, library, blocks, limit):
                        wrong.append(f"{case.what}, {blocks} blocks an SM of {limit}: {message}")
        print(f"{'ok   ' if not wrong else 'WRONG'} {record.name} ({count} calls)", flush=True)
        for message in wrong[:4]:
            print(f"      {message}")
        if len(wrong) > 4:
            print(f"      and {len(wrong) - 4} more")
        right = right and not wrong
    return right


def moved(record: KernelRecord, m: int, k: int) -> int:
    """Bytes read and written once."""
    form = record.config["format"]
    element = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1}[record.config["x"]]
    parts = 2 if record.config["fusion"] == "silu_mul" else 1
    data = m * k // 2 if form.endswith("fp4") else m * k
    per_scale = {
        "nvfp4": 16,
        "mxfp4": 32,
        "mxfp8": 32,
        "mxfp8_e5m2": 32,
        "fp8_1x128": 32,
        "fp8_128x128": 4096,
    }
    return m * k * element * parts + data + m * k // per_scale[form]


def copy_seconds(total: int, sets: int) -> float:
    """Of a copy that reads and writes `total` bytes in all."""
    from tilewright.timing import graph_seconds  # noqa: PLC0415 (needs a GPU)

    half = torch.zeros(2, sets, total // 2, dtype=torch.uint8, device="cuda")
    return graph_seconds([functools.partial(half[0, i].copy_, half[1, i]) for i in range(sets)])


def time(record: KernelRecord, library: Library, m: int, k: int, blocks: list[int]) -> list[dict[str, Any]]:
    """A kernel with each grid, beside a copy of as many bytes."""
    from tilewright.timing import graph_seconds, rotations  # noqa: PLC0415 (needs a GPU)

    properties = torch.cuda.get_device_properties(0)
    form, fusion, dtype = record.config["format"], record.config["fusion"], TYPES[record.config["x"]][1]
    layout, total = layouts_of(form)[0], moved(record, m, k)
    sets = rotations(total, properties.L2_cache_size, least=2, most=24)
    copy = copy_seconds(total, sets)
    wide = 2 * k if fusion == "silu_mul" else k
    xs = [torch.randn(1, m, wide, device="cuda").to(dtype) for _ in range(sets)]
    outs = [Buffers.make(record, (1, m, k), layout, "cuda") for _ in range(sets)]
    scale = torch.tensor(500.0, device="cuda") if form == "nvfp4" else None
    weight = torch.ones(k, dtype=dtype, device="cuda") if fusion == "rmsnorm" else None
    rows = []
    for grid in blocks:
        chosen = options(record, layout, False, grid, properties.multi_processor_count)
        launcher = library.launcher(record.name, chosen)
        calls = [
            functools.partial(launcher, x, weight, scale, None, out.data, out.scales, 1e-5, None)
            for x, out in zip(xs, outs, strict=True)
        ]
        if (status := calls[0]()) != 0:
            raise RuntimeError(f"{record.name}: status {status}")
        seconds = graph_seconds(calls)
        row = {
            "kernel": record.name, "m": m, "k": k, "blocks_per_sm": grid, "us": seconds * 1e6,
            "copy_us": copy * 1e6, "tb_per_s": total / seconds * 1e-12, "ratio": copy / seconds,
        }  # fmt: skip
        rows.append(row)
        print(
            f"{m:6}x{k:<6} {record.name:48} blocks {grid:2}  {row['us']:9.2f} us"
            f"  copy {row['copy_us']:9.2f} us  {row['tb_per_s']:5.2f} TB/s  {100 * row['ratio']:6.1f} %",
            flush=True,
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--large", action="store_true", help="check large shapes too")
    parser.add_argument(
        "--kernels", default="", help="only kernels whose names contain one of these, by commas"
    )
    parser.add_argument(
        "--blocks", default="0,4", help="thread blocks an SM that are timed; 0: as many as tasks"
    )
    parser.add_argument("--output", help="JSON of the times")
    parser.add_argument("--host", help="a library whose kernels run on the host, of sm_90a's")
    given = parser.parse_args()
    registry = Registry()
    host = given.host is not None
    capability = (9, 0) if host else torch.cuda.get_device_capability()
    wanted = [word for word in given.kernels.split(",") if word]
    records = [
        record
        for record in registry.kernels("quantize")
        if routing.runs_on(record.arch, capability)
        and (not wanted or any(word in record.name for word in wanted))
    ]
    if host:
        one = Library(Path(given.host))
        libraries = {record.name: one for record in records}
    else:
        libraries = {record.name: registry.library(record) for record in records}
    print(f"{len(records)} kernels")
    right = True
    if given.check:
        sms = 2 if host else torch.cuda.get_device_properties(0).multi_processor_count
        right = check(records, libraries, "cpu" if host else "cuda", given.large, sms)
    if given.time:
        timed = [
            record
            for record in records
            if record.config["direction"] == "quantize" and (wanted or record.config["x"] in ("bf16", "e4m3"))
        ]
        print(f"copy of 16 bytes, in place of an empty kernel: {copy_seconds(32, 20) * 1e6:.2f} us")
        blocks = [int(word) for word in given.blocks.split(",")]
        rows = [
            row
            for (m, k), record in itertools.product(TIMED, timed)
            for row in time(record, libraries[record.name], m, k, blocks)
        ]
        if given.output:
            Path(given.output).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print("all right" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
