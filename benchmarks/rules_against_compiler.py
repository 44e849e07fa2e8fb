"""Do the rules of `blockscaled_gemm` and the compiler agree?

    python benchmarks/rules_against_compiler.py [--jobs 16] [--seed 0] [--limit N] [--output PATH.json]

Draws configurations over all architectures: half that every rule accepts, half that exactly one rule rejects,
each rule in turn. Each is rendered with the real template and compiled with nvcc. What the rules accept must
compile. What they reject must not, unless the rule is stricter than the compiler for a reason that STRICTER
states. Results are written as they come, and a second run goes on where the first stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args, get_type_hints

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tilewright import paths
from tilewright.build.commands import kernel_command, kernel_flags
from tilewright.build.toolchain import Toolchain, find_toolchain
from tilewright.table import KernelRecord
from tilewright_generator import families
from tilewright_generator.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright_generator.rules import verdicts
from tilewright_generator.shapes import Cluster, Tile

FAMILY = families.get("blockscaled_gemm")
ROOT = Path(__file__).parents[1]
ARCHES = {
    "sm_90a": 10,
    "sm_100f": 12,
    "sm_103a": 8,
    "sm_110a": 3,
    "sm_120f": 11,
}  # accepted ones to draw of each
REJECTED_OF_A_RULE = 4
TIMEOUT_SECONDS = 300
# Rules that are stricter than the compiler, and why. The others state what does not compile.
STRICTER = {
    "prefetch_of_ultra": "the field means nothing elsewhere; the kernel would be the same under another name",
    "store_of_family": "the field means nothing there; the kernel would be the same under another name",
    "hopper_swap": "the kernel is the same; swap_ab says so of its tile",
    "cluster_size": "can_implement refuses clusters beyond 4, or they leave SMs of a GPC idle",
    "tile_depth": "other depths leave fewer stages or smaller copies; nobody measured a gain",
    "quantized_output": "the scales of D would lie along the kernel's m, in a layout that no consumer reads",
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "tile": tuple(
        Tile(m, n, k)
        for m in (64, 96, 128, 256)
        for n in (8, 16, 32, 64, 96, 128, 192, 256)
        for k in (64, 128, 256, 512, 768)
    ),
    "cluster": (
        "dynamic",
        *(Cluster(m, n) for m, n in ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (8, 1))),
    ),
    "stages": ("auto",),
    "pdl": (True,),
    "swap_ab": (False, True),
    "cutlass": ("4.2",),
}
FIELDS = {
    name: CHOICES.get(name) or get_args(hint) for name, hint in get_type_hints(BlockscaledGemmConfig).items()
}


def candidate(arch: str, rng: random.Random) -> BlockscaledGemmConfig:
    values = {name: rng.choice(choices) for name, choices in FIELDS.items()} | {"arch": arch}
    if rng.random() < 0.7:  # else nearly all are rejected for their formats
        values["b"] = values["a"]
    return BlockscaledGemmConfig(**values)


def draw(seed: int) -> list[tuple[BlockscaledGemmConfig, str]]:
    """Configurations with the rule that rejects them ("" for none)."""
    rng = random.Random(seed)
    accepted: dict[str, list[BlockscaledGemmConfig]] = defaultdict(list)
    rejected: dict[str, list[BlockscaledGemmConfig]] = defaultdict(list)
    seen: set[BlockscaledGemmConfig] = set()
    for _ in range(300_000):
        one = candidate(rng.choice(list(ARCHES)), rng)
        if one in seen:
            continue
        seen.add(one)
        against = verdicts(FAMILY, one)
        if not against and len(accepted[one.arch]) < ARCHES[one.arch]:
            accepted[one.arch].append(one)
        elif len(against) == 1 and len(rejected[against[0].rule]) < REJECTED_OF_A_RULE:
            rejected[against[0].rule].append(one)
    drawn = [(one, "") for arch in ARCHES for one in accepted[arch]]
    return drawn + [(one, rule.__name__) for rule in FAMILY.rules for one in rejected[rule.__name__]]


def compile_one(config: BlockscaledGemmConfig, rule: str, toolchain: Toolchain) -> dict[str, Any]:
    """What nvcc says of a configuration."""
    environment = Environment(loader=FileSystemLoader(ROOT / "templates"), undefined=StrictUndefined)
    name = FAMILY.kernel_name(config)
    text = environment.get_template(FAMILY.template(config)).render(
        FAMILY.variables(config) | {"name": name, "spec": "specs/none.yaml"}
    )
    if rule:  # what a rule rejects has no memory that tilewright would have computed
        text = re.sub(r"(SharedStorageSize|kSharedBytes) == \d+", r"\1 > 0", text)
    row = {**FAMILY.build(config), "name": name, "source": "", "sha256": "", "config": {}, "facts": {}}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{name}.cu"
        source.write_text(text, encoding="utf-8")
        command = kernel_command(
            toolchain, paths.include_dir(), source, kernel_flags(KernelRecord.parse(row)), ()
        )
        start = time.monotonic()
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
            )
            said, compiled = done.stdout + done.stderr, done.returncode == 0
        except subprocess.TimeoutExpired:
            said, compiled = f"error: nvcc took more than {TIMEOUT_SECONDS} s", False
    errors = [line.split("error", 1)[1].lstrip(": ") for line in said.splitlines() if "error" in line]
    return {
        "name": name,
        "config": {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(config).items()
        },
        "rule": rule,
        "compiles": compiled,
        "error": "" if compiled else (errors or [said[-300:]])[0][:300],
        "seconds": round(time.monotonic() - start, 1),
    }


def judge(row: dict[str, Any]) -> str:
    """agree, stricter (with a reason that is stated), or disagree."""
    if bool(row["rule"]) != row["compiles"]:
        return "agree"
    return "stricter" if row["rule"] in STRICTER else "disagree"


def write(path: Path, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    body = ",\n".join(
        f"  {json.dumps(row)}" for row in sorted(rows, key=lambda row: (row["rule"], row["name"]))
    )
    path.write_text(f'{json.dumps(head)[:-1]}, "candidates": [\n{body}\n]}}\n', encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="compile only so many")
    parser.add_argument(
        "--time-limit", type=float, default=3600, help="start no compile after so many seconds"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/rules_against_compiler.json"
    )
    arguments = parser.parse_args()
    toolchain = find_toolchain()
    head = {"seed": arguments.seed, "toolchain": toolchain.describe()}
    rows: dict[str, dict[str, Any]] = {}
    if arguments.output.is_file():
        before = json.loads(arguments.output.read_text(encoding="utf-8"))
        if {key: before[key] for key in head} == head:
            rows = {row["name"] + row["rule"]: row for row in before["candidates"]}
    drawn = [one for one in draw(arguments.seed) if FAMILY.kernel_name(one[0]) + one[1] not in rows]
    print(f"{len(drawn)} to compile, {len(rows)} known", flush=True)
    start = time.monotonic()

    def work(one: tuple[BlockscaledGemmConfig, str]) -> dict[str, Any] | None:
        late = time.monotonic() - start > arguments.time_limit
        return None if late else compile_one(*one, toolchain)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(work, drawn[: arguments.limit]):
            if row is not None:
                rows[row["name"] + row["rule"]] = row
                print(
                    f"{judge(row):9} {row['seconds']:6} s {row['rule'] or 'accepted':20} {row['name']}",
                    flush=True,
                )
                write(arguments.output, head, list(rows.values()))
    wrong = [row for row in rows.values() if judge(row) == "disagree"]
    for row in wrong:
        print(f"disagree: {row['name']}: {row['rule'] or 'accepted'}, {row['error'] or 'compiles'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
