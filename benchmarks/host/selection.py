"""What choosing a kernel costs, with 2,000 kernels in the table; needs no GPU and no torch.

    python -m benchmarks.host.selection [--runs N] [--write]

First lookup: a fresh process imports Tilewright, reads the registry and chooses for one bf16 problem; a
library is described that holds all kernels, and none of it is loaded. Once with nothing imported before, once
as a program finds it that has imported torch: with the modules of the standard library there. Times are
medians; the interpreter's own start is not in them. The load says how far others were in the way.

Warm: the same problem again, as an object of its own each time, and as the same object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import describe, record, run

from tilewright.compile.compilers import made_of
from tilewright.compile.library import FORMAT
from tilewright.declarations.table import Table

MODULE = "sm90_gemm_2000"
TARGETS = {"first_lookup_ms": 50.0, "warm_us": 2.0}
CHILD = """
import sys, time
for name in sys.argv[2].split(','):
    if name: __import__(name)
before = set(sys.modules)
start, used = time.perf_counter(), time.process_time()
from pathlib import Path
from tilewright.context import Context
from tilewright.architectures.device import H200
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
imported = time.perf_counter()
context = Context(Registry(Path(sys.argv[1])))
kernels = len(context.registry.route("gemm", H200))
read = time.perf_counter()
choice = context.select(FAMILY, Problem(32, 5120, 25600), H200)
chosen, used = time.perf_counter(), time.process_time() - used
assert context.registry.is_built(choice.record) and 'torch' not in sys.modules
import json, timeit
problem = Problem(32, 5120, 25600)
others = [Problem(32, 5120, 25600) for _ in range(10000)]
same = min(timeit.repeat(lambda: context.select(FAMILY, problem, H200), number=10000, repeat=5)) / 1e4
each = min(timeit.repeat(
    lambda: [context.select(FAMILY, other, H200) for other in others], number=1, repeat=5,
))
print(json.dumps({
    "kernels": kernels, "tactic": str(choice.tactic), "standard": sorted(
        name for name in set(sys.modules) - before
        if name.partition('.')[0] in sys.stdlib_module_names and not name.startswith('__')),
    "imports_ms": 1e3 * (imported - start), "registry_ms": 1e3 * (read - imported),
    "choose_ms": 1e3 * (chosen - read), "first_lookup_ms": 1e3 * (chosen - start),
    "first_lookup_processor_ms": 1e3 * used,
    "warm_us": 1e6 * same, "warm_equal_us": 1e6 * each / 1e4,
}))
"""


def project(folder: Path) -> Path:
    """Generates the kernels, and writes what a library of all of them would say of itself."""
    spec = folder / "specs" / f"{MODULE}.yaml"
    spec.parent.mkdir()
    shutil.copy(Path(__file__).parents[1] / "specs" / spec.name, spec)
    script = "from tilewright_generator.cli import main; main()"
    run([sys.executable, "-c", script, "generate", "--root", str(folder)])
    table = Table.read(folder / "generated" / MODULE / "table.json")
    home = folder / "cache" / "libraries" / MODULE / ("0123456789abcdef" * 2)
    home.mkdir(parents=True)
    (home / f"{MODULE}.so").write_bytes(b"not loaded")
    described = {
        "format": FORMAT, "module": MODULE, "key": home.name, "machine": platform.machine(),
        "toolchain": {"nvcc": "13.0.88", "host": "g++", "cutlass": "4.2.0"}, "headers": {}, "table": "0" * 32,
        "kernels": {
            name: {"made_of": made_of(kernel), "source_key": "0" * 32, "object": "0" * 32}
            for name, kernel in table.items()
        },
        "library": {"sha256": "0" * 64, "bytes": len(b"not loaded")},
    }  # fmt: skip
    (home / "library.json").write_text(json.dumps(described, indent=1), encoding="utf-8")
    return folder / "generated"


def lookup(generated: Path, before: list[str]) -> dict[str, Any]:
    environment = {
        "TILEWRIGHT_CACHE": str(generated.parent / "cache"),
        "TILEWRIGHT_TUNED": "",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    command = [sys.executable, "-c", CHILD, str(generated), ",".join(before)]
    times: dict[str, Any] = json.loads(run(command, environment=environment).output)
    return times


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    names = [name for name in runs[0] if name.endswith(("_ms", "_us"))]
    return {name: round(statistics.median(run[name] for run in runs), 3) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="processes; a time is their median")
    parser.add_argument("--write", action="store_true", help="Write benchmarks/results/selection.json.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generated = project(Path(folder))
        first = lookup(generated, [])  # reads bytecode from now on
        standard = first["standard"]
        cold, after = [], []
        for _ in range(arguments.runs):
            cold.append(lookup(generated, []))
            after.append(lookup(generated, standard))
    result = {
        "kernels": first["kernels"],
        "targets": TARGETS,
        "standard_library_imported_before": medians(after),
        "nothing_imported_before": medians(cold),
        "machine": {**describe(), "load": [round(load, 2) for load in os.getloadavg()]},
    }
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if arguments.write:
        record("selection.json", text)
    met = all(result["standard_library_imported_before"][name] < limit for name, limit in TARGETS.items())
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
