"""A small project with one of every file that tilewright reads, of which cases get copies."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
TILEWRIGHT = (sys.executable, "-c", "from tilewright_generator.cli import main; main()")

SPECS = {
    "hopper": """\
family: gemm
description: Dense products
arch: sm_90a
mainloop: cutlass
a: &type bf16
b: *type
d: bf16
configs:
  - tile: [128x128x64, 128x256x64]
    scheduler: [data_parallel, stream_k]
  - &pingpong {tile: 64x128x64, schedule: pingpong, cluster: [1x1, 2x1]}
  - {<<: *pingpong, a: e4m3, b: e4m3, tile: 64x128x128, fast_accum: true}
""",
    "blackwell": """\
family: blockscaled_gemm
arch: [sm_100f, sm_120f]
defaults:
  data_center: {arch: sm_100f, schedule: [1sm, 2sm], cluster: dynamic}
configs:
  - {a: nvfp4, b: nvfp4, d: [bf16, nvfp4], tile: 128x128x256, use: data_center}
  - {arch: sm_120f, a: nvfp4, b: nvfp4, d: bf16, tile: 128x128x128, schedule: cooperative,
     scheduler: [data_parallel, stream_k], swap_ab: [false, true]}
""",
    "scales": """\
family: quantize
arch: [sm_90a, sm_100f]
configs:
  - {format: [nvfp4, mxfp8], x: [bf16, e4m3]}
  - {format: nvfp4, x: bf16, variant: tma, stages: 2}
  - {format: [nvfp4, fp8_1x128], x: bf16, direction: dequantize}
""",
}
SIZES = """\
m: [1, 16, 4096]
layers:
  - {name: qkv, n: 6144, k: 4096}
squares: [512, 1024]
"""
PYPROJECT = """\
[project]
dependencies = ["nvidia-cutlass==4.2.0"]
"""


OUTSIDE = "outside"
"""Beside a project: a folder to which links of it lead, and in which nothing may change."""


def make(folder: Path) -> None:
    """Fills a folder: specs, generated files, tuned files, records, a report, and a cache with a library and
    objects that a build would take from it."""
    (folder / "specs").mkdir(parents=True)
    for name, text in SPECS.items():
        (folder / "specs" / f"{name}.yaml").write_text(text, encoding="utf-8")
    (folder / "sizes.yaml").write_text(SIZES, encoding="utf-8")
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    for name in ("gemm", "blockscaled_gemm", "quantize"):
        shutil.copytree(REPOSITORY / "templates" / name, folder / "templates" / name)
    shutil.copy(REPOSITORY / "templates" / "table.cc.j2", folder / "templates")
    _run(folder, "generate")
    planned = json.loads(_run(folder, "build", "--dry-run", "--json", "--cache", str(folder / "cache")))
    _fill_cache(folder, planned)
    report = _report(planned)
    (folder / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    _run(folder, "status", "--record", "report.json")
    _write_run_records(folder)
    (folder / "benchmarks/results/stale.json").write_text('{"compiled": 0, "run": 0}', encoding="utf-8")
    _write_tuned_files(folder)


def _run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*TILEWRIGHT, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"tilewright {' '.join(arguments)} exits {done.returncode}:\n{done.stderr}")
    return done.stdout


_MEASURED: dict[str, Any] = {
    "registers": 168, "smem_bytes": 1024, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0,
    "code_bytes": 4096, "tensor_instructions": {"HGMMA": 8}, "grid_dependency": {"ACQBULK": 2},
    "seconds": 1.5, "peak_memory_bytes": 1 << 30,
}  # fmt: skip


def _report(planned: Mapping[str, Any]) -> dict[str, Any]:
    """What `build --report` would say, had it compiled all."""
    kernels = [
        {**kernel, **_MEASURED, "status": "built", "findings": []}
        for kernel in planned["kernels"]
        if kernel["status"] != "skipped"
    ]
    return {**planned, "kernels": kernels}


def _fill_cache(folder: Path, planned: Mapping[str, Any]) -> None:
    from tilewright.compile import marker  # noqa: PLC0415
    from tilewright.compile.compilers import made_of  # noqa: PLC0415
    from tilewright.compile.keys import KEY_FORMAT  # noqa: PLC0415
    from tilewright.compile.library import FORMAT  # noqa: PLC0415
    from tilewright.declarations.table import Table  # noqa: PLC0415

    cache, data = folder / "cache", b"not an object"
    cache.mkdir(exist_ok=True)
    if not marker.is_marked(cache):
        cache.mkdir(exist_ok=True)  # a dry run makes none
        marker.mark(cache)
    stated = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    for kernel in planned["kernels"][::4]:
        if kernel["status"] == "skipped":
            continue
        entry = cache / "objects" / kernel["key"]
        entry.mkdir(parents=True)
        (entry / "kernel.o").write_bytes(data)
        report = {
            "format": KEY_FORMAT, "key": kernel["key"], "name": kernel["name"], "module": kernel["module"],
            "kind": "kernel", "object": stated, **_MEASURED, "threads": 384, "command": [],
            "warnings": [], "hazards": [],
        }  # fmt: skip
        (entry / "report.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    for module in SPECS:
        table = Table.read(folder / "generated" / module / "table.json")
        key = hashlib.sha256(module.encode()).hexdigest()[:32]
        place = cache / "libraries" / module / key
        place.mkdir(parents=True)
        (place / f"{module}.so").write_bytes(data)
        kernels = {
            name: {"made_of": made_of(table[name]), "source_key": "", "object": ""}
            for name in list(table)[::2]
        }
        library = {
            "format": FORMAT, "module": module, "key": key, "machine": platform.machine(), "headers": {},
            "toolchain": dict(planned["toolchain"]), "kernels": kernels, "table": "", "library": stated,
        }  # fmt: skip
        (place / "library.json").write_text(json.dumps(library, indent=1), encoding="utf-8")


def _write_run_records(folder: Path) -> None:
    rows = []
    for path in sorted((folder / "benchmarks/results/compile").glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["kernels"]:
            ran = {"problems": 9, "max_error": 1e-3, "passed": True}
            rows.append({"name": row["name"], "source_key": row["source_key"], **ran})
    record = {"format": 1, "gpu": "NVIDIA H200", "driver": "580.1", "date": "2026-01-01", "kernels": rows}
    path = folder / "benchmarks/results/gpu/h200.json"
    path.parent.mkdir()
    path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def _write_tuned_files(folder: Path) -> None:
    """For an H200: a few problems of every family, each with the cost model's choice."""
    from tilewright.architectures.device import H200  # noqa: PLC0415
    from tilewright.base.paths import tuned_file  # noqa: PLC0415
    from tilewright.context import Context  # noqa: PLC0415
    from tilewright.declarations import catalog  # noqa: PLC0415
    from tilewright.errors import NoKernelError, UnsupportedDeviceError  # noqa: PLC0415
    from tilewright.libraries.registry import Registry  # noqa: PLC0415
    from tilewright.selection import tuned_files  # noqa: PLC0415
    from tilewright.selection.families import family_of  # noqa: PLC0415
    from tilewright.selection.tuned_header import Header  # noqa: PLC0415
    from tilewright.tools.tuning import tuned_writing  # noqa: PLC0415

    registry = Registry(folder / "generated")
    context = Context(registry)
    header = Header("NVIDIA H200", "9.0", 132, "580.1", "13.0", "4.2.0")
    for name in catalog.names():
        family = family_of(name)
        actual = []
        for m in (16, 64, 512):
            problem = family.words.make({**family.words.example, "m": m}, {})
            try:
                tactic = context.select(family, problem, H200).tactic
            except (NoKernelError, UnsupportedDeviceError):
                continue
            records = family.of_kind(registry, registry.runnable(name, H200.capability), problem.kind)
            actual.append(
                tuned_files.Entry(problem, tactic, 1e-5, frozenset(record.name for record in records))
            )
        if actual:
            tuned_writing.update(tuned_file(folder / "tuned", H200.name, name), header, family, actual)


def copy(template: Path, target: Path) -> None:
    shutil.copytree(template, target, symlinks=True)


def make_outside(folder: Path) -> None:
    """Makes the folder that links lead to, with a file and a folder in it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "folder").mkdir(parents=True)
    (folder / "file").write_text("mine\n", encoding="utf-8")


def is_untouched(folder: Path) -> bool:
    """Whether that folder is as `make_outside` left it."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
    return names == ["file", "folder"] and (folder / "file").read_text(encoding="utf-8") == "mine\n"
