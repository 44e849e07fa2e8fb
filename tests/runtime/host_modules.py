"""Tables of kernels that run on the host, and the library that g++ makes of them."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import pytest
from host_programs import host_compiler
from table_rows import table_row

from tilewright import context as contexts
from tilewright.architectures.device import H200, DeviceProperties
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord, Table
from tilewright.libraries.registry import Registry

ROOT = Path(__file__).resolve().parents[2]
ALIGNMENT = {"bf16": 8, "f16": 8, "tf32": 4, "f32": 4, "s8": 16, "s32": 4, "e4m3": 16, "e5m2": 16}


def config(**fields: Any) -> dict[str, Any]:
    defaults = {
        "arch": "sm_90a", "a": "bf16", "b": "bf16", "d": "bf16", "tile": [128, 128, 64],
        "mainloop": "cutlass", "acc": "f32", "c": "same", "layout": "tn", "cluster": [1, 1],
        "schedule": "cooperative", "scheduler": "data_parallel", "fast_accum": False, "swap_ab": False,
        "bias": False, "activation": "none", "pdl": False, "stages": "auto",
    }  # fmt: skip
    return defaults | fields


def make_row(name: str, **fields: Any) -> dict[str, Any]:
    """A row of a table as the generator writes it."""
    made = config(**fields)
    types = {"a": made["a"], "b": made["b"], "c": made["d"], "d": made["d"]}
    alignment = {matrix: ALIGNMENT[dtype] for matrix, dtype in types.items()}
    facts = {"stages": 4, "smem_bytes": 100000, "threads": 384, "alignment": alignment}
    return table_row(name, made, facts, ["HGMMA"])


def make_lean_row(name: str, *, splits: bool = True, **fields: Any) -> dict[str, Any]:
    """A row of a kernel with the mainloop of ours, whose sums may go through its stages' memory or not."""
    schedule = "cooperative" if splits else "pingpong"
    defaults = {"schedule": schedule, "c": "same" if splits else "none"}
    row = make_row(name, mainloop="lean", cluster="dynamic", bias=True, **defaults | fields)
    row["facts"] |= {"splits": splits, "subtiles": 2, "cluster_multiple": [1, 1]}
    return row


_E4M3 = {"a": "e4m3", "b": "e4m3", "tile": [128, 128, 128]}
HOST_ROWS = [
    make_row("host_bf16_tn", bias=True),
    make_row("host_bf16_tn_relu", bias=True, activation="relu"),
    make_row("host_bf16_tn_streamk", bias=True, scheduler="stream_k", tile=[128, 256, 64]),
    make_row("host_bf16_nt", layout="nt"),
    make_row("host_tf32_tn", a="tf32", b="tf32", d="f32"),
    make_row("host_s8_tn", a="s8", b="s8", d="s32", acc="s32", bias=True),
    make_lean_row("host_e4m3_lean", **_E4M3),
    make_lean_row("host_e4m3_lean_turns", **_E4M3, splits=False),
    make_lean_row("host_e4m3_lean_e4m3", **_E4M3, d="e4m3"),
    make_lean_row("host_bf16_gated", activation="silu_mul", c="none"),
    make_row("host_absent", activation="silu"),
    make_row("host_old_abi", activation="gelu"),
    make_row("host_other_struct", activation="gelu", layout="nt"),
]


BITS = {
    "nvfp4": 4, "mxfp4": 4, "mxfp8": 8, "mxfp8_e5m2": 8, "e4m3": 8, "e5m2": 8, "bf16": 16, "f16": 16,
    "f32": 32,
}  # fmt: skip


def make_blockscaled_row(name: str, **fields: Any) -> dict[str, Any]:
    """A row of a table of block-scaled kernels as the generator writes it."""
    made: dict[str, Any] = {
        "arch": "sm_100f", "a": "nvfp4", "b": "nvfp4", "d": "bf16", "tile": [128, 128, 256], "c": "none",
        "cluster": "dynamic", "schedule": "1sm", "scheduler": "data_parallel", "store": "tma",
        "prefetch": "tma", "swap_ab": False, "pdl": True, "stages": "auto", "cutlass": "4.2",
        "mainloop": "default",
    } | fields  # fmt: skip
    mixed = BITS[made["a"]] != BITS[made["b"]]
    alignment = {x: 128 if mixed and BITS[made[x]] == 4 else 128 // BITS[made[x]] for x in "ab"}
    store = 256 if made["store"] == "direct_256" else 128
    alignment["c"] = store // max(16, BITS[made["d"]])
    alignment["d"] = store // BITS[made["d"]]
    if made["arch"] == "sm_90a":
        alignment = {"a": 32, "b": 32, "c": 1, "d": 1}
    facts = {
        "stages": 4,
        "smem_bytes": 100000,
        "threads": 256,
        "block": 16 if made["a"] == "nvfp4" else 32,
        "alignment": alignment,
    }
    if made["cluster"] == "dynamic":
        facts["cluster_multiple"] = [2 if made["schedule"] == "2sm" else 1, 1]
    return table_row(name, made, facts, ["UTCOMMA"])


_ULTRA = {"arch": "sm_103a", "tile": [128, 128, 768], "store": "direct_256"}
HOST_BLOCKSCALED_ROWS = [
    make_blockscaled_row("host_nvfp4"),
    make_blockscaled_row("host_nvfp4_2sm", schedule="2sm"),
    make_blockscaled_row("host_nvfp4_streamk", scheduler="stream_k", cluster=[1, 1]),
    make_blockscaled_row("host_nvfp4_c", c="same"),
    make_blockscaled_row("host_nvfp4_f32", d="f32"),
    make_blockscaled_row("host_nvfp4_f32_bias", d="f32", c="same", bias=True, activation="given"),
    make_blockscaled_row("host_nvfp4_ultra", **_ULTRA),
    make_blockscaled_row("host_nvfp4_quantized", d="nvfp4"),
    make_blockscaled_row("host_mxfp4", a="mxfp4", b="mxfp4"),
    make_blockscaled_row("host_mxfp8", a="mxfp8", b="mxfp8"),
    make_blockscaled_row("host_mxfp8_e5m2", a="mxfp8_e5m2", b="mxfp8"),
    make_blockscaled_row("host_mxfp8_quantized", a="mxfp8", b="mxfp8", d="mxfp8"),
    make_blockscaled_row("host_mxfp8_e4m3", a="mxfp8", b="mxfp8", d="e4m3", c="same"),
    make_blockscaled_row("host_mxfp8_e5m2_out", a="mxfp8", b="mxfp8", d="e5m2"),
    make_blockscaled_row("host_mxfp8_mxfp4", a="mxfp8", b="mxfp4"),
    make_blockscaled_row("host_mxfp4_mxfp8", a="mxfp4", b="mxfp8"),
    make_blockscaled_row("host_nvfp4_absent", d="f16"),
]


def make_groups_row(name: str, **fields: Any) -> dict[str, Any]:
    """A row of a table of block-scaled kernels of groups as the generator writes it."""
    made: dict[str, Any] = {
        "arch": "sm_100f", "a": "nvfp4", "b": "nvfp4", "d": "bf16", "tile": [128, 128, 256],
        "schedule": "1sm", "swap_ab": False, "stages": "auto",
    } | fields  # fmt: skip
    facts = make_blockscaled_row(name, **{key: made[key] for key in ("a", "b", "d")})["facts"]
    return table_row(name, made, facts, ["UTCOMMA"])


HOST_GROUPS_ROWS = [
    make_groups_row("host_groups_nvfp4"),
    make_groups_row("host_groups_nvfp4_f32", d="f32"),
    make_groups_row("host_groups_mxfp4", a="mxfp4", b="mxfp4"),
    make_groups_row("host_groups_mxfp8", a="mxfp8", b="mxfp8"),
    make_groups_row("host_groups_mxfp8_mxfp4", a="mxfp8", b="mxfp4"),
    make_groups_row("host_groups_e5m2_mxfp4", a="mxfp8_e5m2", b="mxfp4"),
]


HOST_REDUCED_ROWS = [
    table_row(
        "host_reduced_gemm", {"arch": "sm_90a", "a": "bf16", "tile": [128, 128, 64], "pdl": True},
        {"threads": 384, "stages": 4, "smem_bytes": 100000}, ["HGMMA"],
    )
]  # fmt: skip
HOST_SCALE_COLUMNS_ROWS = [
    table_row("host_scale_columns", {"arch": "sm_90a", "pdl": True}, {"threads": 256}),
    table_row(
        "host_scale_atoms", {"arch": "sm_90a", "pdl": True, "writes": "128x4"},
        {"threads": 128, "alignment": {"out": 16}},
    ),
]  # fmt: skip
HOST_TRANSPOSE_FP8_ROWS = [table_row("host_transpose_fp8", {"arch": "sm_90a", "pdl": True}, {"threads": 256})]


def _mqa_row(name: str, form: str, d: str = "f32", q: str = "e4m3") -> dict[str, Any]:
    heads, head_dim = (64, 128) if form == "schedule" else (16, 32 if q == "e4m3" else 64)
    config = {
        "arch": "sm_90a", "form": form, "heads": heads, "head_dim": head_dim, "q": q,
        "d": d, "mma": "wgmma", "queries": 4, "pieces": 1, "warpgroups": 2, "stages": 8, "pdl": True,
    }  # fmt: skip
    return table_row(name, config, {"threads": 384, "smem_bytes": 100000})


HOST_MQA_ROWS = [
    _mqa_row("host_mqa_ragged", "ragged"),
    _mqa_row("host_mqa_ragged_bf16", "ragged", "bf16"),
    _mqa_row("host_mqa_paged", "paged"),
    _mqa_row("host_mqa_ragged_fp4", "ragged", q="mxfp4"),
    _mqa_row("host_mqa_paged_fp4", "paged", q="mxfp4"),
    _mqa_row("host_mqa_schedule", "schedule"),
]


def write_table(folder: Path, module: str, rows: list[dict[str, Any]], family: str = "gemm") -> Path:
    head = {"format": 1, "module": module, "family": family, "spec": f"specs/{module}.yaml"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    (folder / module).mkdir(parents=True)
    path = folder / module / "table.json"
    path.write_text(json.dumps(head)[:-1] + ', "kernels": [\n' + lines + "\n]}\n", encoding="utf-8")
    return path


class Built:
    """Stands for a library.json: everything of the table is in it but `lacking`."""

    toolchain = {"nvcc": "13.0.88", "host": "g++ 12.2.0", "cutlass": "4.2.0"}  # noqa: RUF012

    def __init__(self, path: Path, lacking: tuple[str, ...] = ()) -> None:
        self.path = path
        self.lacking = lacking

    def holds(self, record: KernelRecord) -> bool:
        return record.name not in self.lacking and record.sha256 == f"sha of {record.name}"


def host_context(
    generated: Path,
    library: Path | Mapping[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    lacking: tuple[str, ...] = (),
    device: DeviceProperties = H200,
) -> Iterator[Context]:
    """A context in which ops run host kernels on CPU tensors, as if on `device`; `lacking` are not built.

    `library`: of all modules, or of each by its name.
    """
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")

    def built(module: str) -> list[Built]:
        return [Built(library if isinstance(library, Path) else library[module], lacking)]

    registry = Registry(generated, libraries=built)
    with contexts.use(Context(registry, described=device)) as context:
        yield context


def source_of(kernels: str) -> str:
    """The text of a file beside this one, with the headers beside this one that it includes."""

    def header(match: re.Match[str]) -> str:
        return source_of(match[1]).replace("#pragma once\n", "")

    text = (Path(__file__).parent / kernels).read_text(encoding="utf-8")
    return re.sub(r'^#include "(host_\w+\.hpp)"\n', header, text, flags=re.MULTILINE)


def write_module(folder: Path, module: str, family: str, rows: list[dict[str, Any]], kernels: str) -> Table:
    """A module of kernels that run on the host: its table, table.cc, and a source for each kernel of the file
    `kernels` beside this one. Rows of other kernels have no source."""
    text = source_of(kernels)
    sources = {
        row["name"]: re.sub(rf"^HOST_KERNEL\((?!{row['name']},).*\n", "", text, flags=re.MULTILINE)
        for row in rows
    }
    files = [
        {
            **row,
            "source": f"{row['name']}.cpp",
            "compiler": "host",
            "sha256": hashlib.sha256(sources[row["name"]].encode()).hexdigest(),
        }
        for row in rows
    ]
    path = write_table(folder, module, files, family)
    for name, source in sources.items():
        if re.search(rf"(?:HOST_KERNEL\(|tilewright_){name}\b", source):
            (path.parent / f"{name}.cpp").write_text(source, encoding="utf-8")
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(ROOT / "templates"))
    rendered = templates.select_template([f"{family}/table.cc.j2", "table.cc.j2"]).render(
        spec=f"specs/{module}.yaml", module=module, family=family, kernels=[*sources], hosts=()
    )
    (path.parent / "table.cc").write_text(rendered, encoding="utf-8")
    return Table.read(path)


def build_host_library(folder: Path, family: str, rows: list[dict[str, Any]], kernels: str) -> Path:
    """The library of a module of host kernels, built as a user's is. Skips without a compiler.

    folder: where the build cache is kept from one call to the next, as `host_programs.FOLDER` is.
    """
    host_compiler()
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_TRUST_CACHE", "1")  # a checkout may be a folder that a group writes to
        table = write_module(Path(place), f"host_{family}", family, rows, kernels)
        names = [name for name in table if table.source(table[name]).exists()]
        report = build([table], names, store=Store(folder / "cache"))
    report.raise_for_failures()
    (library,) = report.libraries
    return library.path
