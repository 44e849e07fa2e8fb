"""What a new architecture takes: one entry of the table, and a spec. Nothing else knows its number."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from command_line import ROOT

PAGE = (ROOT / "docs/adding_an_architecture.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))

# Appends the page's made-up 10.9 to the table before anything reads it, then runs in the project's folder.
SCRIPT = """\
import json, sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tilewright.architectures import table
from tilewright.architectures.table import TCGEN05_ULTRA, Architecture, Cutlass, Gpu, SharedMemory

table.ARCHITECTURES += (ENTRY,)

from tilewright.architectures import routing
from tilewright.architectures.device import DESCRIBED
from tilewright.compile import jobs
from tilewright.compile.nvcc import waits
from tilewright.declarations import catalog
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright_generator.cli import invoke

assert invoke(["generate", "--root", ".", "--quiet"]) == 0
words = ["quantize", "nvfp4", "m=64", "k=4096", "--device", "r109", "--json"]
with redirect_stdout(StringIO()) as explained:
    assert invoke(["explain", "--problem", *words]) == 0
registry = Registry(Path("generated"))
device = DESCRIBED["r109"]
rows = registry.runnable("blockscaled_gemm", device.capability)
ranked = FAMILY.rank(rows, Problem(512, 4096, 4096, a="nvfp4", b="nvfp4", d="bf16"), device)
older = registry.runnable("blockscaled_gemm", DESCRIBED["b300"].capability)
print(json.dumps({
    "explained": json.loads(explained.getvalue())["device"],
    "rows": [[row.name, row.arch, row.instructions, row.defines, row.facts["stages"]] for row in rows],
    "quantize": [row.name for row in registry.runnable("quantize", device.capability)],
    "older": len(older),
    "estimates": len([candidate for candidate in ranked if candidate.estimate is not None]),
    "target": routing.wanted_target(device.capability),
    "after": routing.wanted_target((10, 8)),
    "advised": [name for name in catalog.names() if "sm_109a" in catalog.targets_of(name)],
    "gib": jobs.unit_bytes([("sm_109a", True)]) >> 30,
    "exception": waits.exception({"kind": "early_access", "opcode": "LDG"}, "sm_109a", True),
}))
"""


def test_an_entry_and_a_spec_are_all_that_a_new_architecture_takes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    (tmp_path / "specs").mkdir()
    specs = {name: text for name, text in BLOCKS.items() if name.startswith("specs/")}
    assert len(specs) == 2
    for name, text in specs.items():
        (tmp_path / name).write_text(text)
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("runtime", "generator"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("ENTRY", BLOCKS["entry"])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    first = "blockscaled_gemm_sm109_nvfp4_nvfp4_bf16_128x128x"
    assert answers["rows"] == [
        # Stages follow from the 190,000 bytes of the entry.
        [f"{first}256_dyn_1sm", "sm_109a", [r"UTCOMMA\.BLOCK16"], ["CUTLASS_GDC_ENABLED=1"], 4],
        [f"{first}256_dyn_2sm", "sm_109a", [r"UTCOMMA\.2CTA\.BLOCK16"], ["CUTLASS_GDC_ENABLED=1"], 6],
        [f"{first}768_dyn_1sm_direct_nopdl", "sm_109a", [r"UTCOMMA\.BLOCK16"], [], 5],
    ]
    assert answers["explained"] == "NVIDIA R109"
    assert answers["quantize"] == ["quantize_sm109_nvfp4_bf16_vector"]
    assert answers["older"] == 0  # an `a` target runs on no other GPU
    assert answers["estimates"] >= 3
    assert (answers["target"], answers["after"]) == ("sm_109a", "sm_100f")
    assert {"blockscaled_gemm", "quantize", "hc_prenorm"} <= set(answers["advised"])
    assert "mixed_gemm" not in answers["advised"]  # its kernels need wgmma
    assert answers["gib"] == 7
    assert "cluster launch control" in answers["exception"]
