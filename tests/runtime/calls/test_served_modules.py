"""Which modules a served call imports: `make lines` counts them without importing any."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.lib import import_graph

MODULES = (
    "host_gemm", "host_blockscaled", "host_quantize", "host_grouped_gemm", "host_reduced",
    "host_scale_columns", "host_transpose_fp8", "host_prenorm", "host_mqa_logits",
)  # fmt: skip
# What the calls of the test bring along: their templates, operands and references.
OF_THE_TEST = re.compile(r"tilewright\.(contract\b|tools\b|reference|families\.\w+\.(measuring|reference))")
MOST_LINES = 24_069  # of Python that a served call imports; 18,000 is what it should be


@pytest.fixture(scope="session")
def known() -> dict[str, Path]:
    return import_graph.modules({"tilewright": import_graph.PACKAGES["tilewright"]})


def test_calls_of_all_ops_import_what_is_counted(
    host_libraries: Callable[[str], Path], host_generated: Path, known: dict[str, Path]
) -> None:
    pytest.importorskip("torch")
    program = Path(__file__).parent / "served_modules.py"
    libraries = [f"{module}={host_libraries(module)}" for module in MODULES]
    run = subprocess.run(
        [sys.executable, program, host_generated, *libraries], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    imported = {name for name in run.stdout.split() if not OF_THE_TEST.match(name)}
    served = import_graph.served(known)
    assert not imported - served, sorted(imported - served)
    # The rest serves plans, errors, sharing with torch, and the like.
    assert len(served - imported) < 20, sorted(served - imported)


def test_a_served_call_needs_a_part_of_the_runtime(known: dict[str, Path]) -> None:
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in known.items()}
    served = import_graph.served(known)
    assert sum(lines[name] for name in served) <= MOST_LINES
    assert not [name for name in served if name.startswith(("tilewright.tools", "tilewright.contract."))]


def test_builds_and_the_generator_ask_for_modules_of_their_own(known: dict[str, Path]) -> None:
    served, built, generated = (
        of(known) for of in (import_graph.served, import_graph.built, import_graph.generated)
    )
    assert {"tilewright.families.gemm.op", "tilewright.compile.library"} <= served
    assert {"tilewright.compile.building", "tilewright.compile.nvcc.sass_hazards"} <= built
    assert {"tilewright.families.gemm.rules", "tilewright.configurations.rule"} <= generated
    assert not served & (built | generated)
    assert not built & generated
