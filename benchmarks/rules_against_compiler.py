"""Do the rules of `blockscaled_gemm` and the compiler agree?

    python benchmarks/rules_against_compiler.py [--jobs 16] [--time-limit 480] [--seed 0] [--limit N]

Draws configurations over all architectures: half that every rule accepts, half that exactly one rule rejects,
two for each rule. Each is rendered with the real template and compiled with nvcc as `tilewright build` does.
What the rules accept must compile, with the shared memory that they computed. What they reject must not,
unless the rule is one of POLICIES, which says why it is stricter than the compiler. Results are written as
they come, as JSON and as a table; a second run goes on where the first stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from machine import describe

from tilewright import paths
from tilewright.build.commands import kernel_command, kernel_flags
from tilewright.build.toolchain import Toolchain, find_toolchain
from tilewright.table import KernelRecord
from tilewright_generator import families
from tilewright_generator.families.blockscaled_gemm.config import (
    BlockscaledGemmConfig,
    family,
    mixes_bits,
    ultra,
)
from tilewright_generator.families.blockscaled_gemm.rules import POLICIES
from tilewright_generator.rules import verdicts
from tilewright_generator.shapes import Cluster, Tile

FAMILY = families.get("blockscaled_gemm")
ROOT = Path(__file__).parents[1]
ARCHES = ("sm_90a", "sm_100f", "sm_103a", "sm_110a", "sm_120f")
# Accepted ones to draw, by architecture and what is rare in it.
ACCEPTED = {
    "sm_90a": 6,
    "sm_90a mixed": 2,
    "sm_100f": 10,
    "sm_100f mixed": 4,
    "sm_103a": 4,
    "sm_103a ultra": 6,
    "sm_110a": 3,
    "sm_110a mixed": 1,
    "sm_120f": 11,
    "sm_120f mixed": 3,
}
REJECTED_OF_A_RULE = 2
HOPPER_RULES = {"quantized_output", "hopper_tile", "hopper_depth", "hopper_grid", "hopper_swap"}
TIMEOUT_SECONDS = 300
STRICTER = {rule.__name__: reason for rule, reason in POLICIES.items()}
CHOICES: dict[str, tuple[Any, ...]] = {
    "tile": tuple(
        Tile(m, n, k)
        for m in (64, 96, 128, 128, 128, 256)
        for n in (8, 16, 32, 64, 96, 128, 128, 192, 256)
        for k in (64, 128, 128, 256, 512, 768)
    ),
    "cluster": (
        "dynamic",
        *(Cluster(m, n) for m, n in ((1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (3, 1), (8, 1))),
    ),
    "stages": ("auto", "auto", "auto", 2, 5),
    "pdl": (True,),
    "swap_ab": (False, True),
    "cutlass": ("4.2",),
}
FIELDS = {
    name: CHOICES.get(name) or get_args(hint) for name, hint in get_type_hints(BlockscaledGemmConfig).items()
}
# What is drawn more often where it is the usual choice: else nearly all are rejected for two things at once.
USUAL: dict[str, dict[str, tuple[Any, ...]]] = {
    "hopper": {
        "schedule": ("cooperative",),
        "cluster": (Cluster(1, 1),),
        "scheduler": ("data_parallel",),
        "store": ("tma",),
        "prefetch": ("tma",),
        "swap_ab": (True,),
        "stages": ("auto",),
    },
    "tcgen05": {"schedule": ("1sm", "2sm"), "prefetch": ("tma",)},
    "sm120": {
        "schedule": ("cooperative", "pingpong"),
        "cluster": (Cluster(1, 1),),
        "store": ("tma",),
        "prefetch": ("tma",),
    },
}


@dataclass(frozen=True)
class Candidate:
    """A configuration, the rule that rejects it ("" for none) and its reason; its source as nvcc gets it."""

    config: BlockscaledGemmConfig
    rule: str
    reason: str
    text: str

    @property
    def name(self) -> str:
        return FAMILY.kernel_name(self.config)

    @property
    def digest(self) -> str:
        """Of what decides the compiler's answer, beside the headers."""
        return hashlib.sha256((self.text + json.dumps(FAMILY.build(self.config))).encode()).hexdigest()[:16]


def random_config(arch: str, rng: random.Random) -> BlockscaledGemmConfig:
    values = {name: rng.choice(choices) for name, choices in FIELDS.items()} | {"arch": arch}
    if rng.random() < 0.7:
        values["b"] = values["a"]
    usual = USUAL[family(BlockscaledGemmConfig(**values))]
    values |= {name: rng.choice(choices) for name, choices in usual.items() if rng.random() < 0.9}
    return BlockscaledGemmConfig(**values)


def draw(seed: int) -> list[Candidate]:
    """The sample, in the order in which it is compiled: at random, so that its first half is one too."""
    rng = random.Random(seed)
    accepted: dict[str, list[Candidate]] = defaultdict(list)
    rejected: dict[str, list[Candidate]] = defaultdict(list)
    seen: set[BlockscaledGemmConfig] = set()
    for _ in range(400_000):
        one = random_config(rng.choice(ARCHES), rng)
        if one in seen:
            continue
        seen.add(one)
        against = verdicts(FAMILY, one)
        if not against and len(accepted[kind(one)]) < ACCEPTED.get(kind(one), 0):
            accepted[kind(one)].append(Candidate(one, "", "", render(one, "")))
        elif len(against) == 1 and len(rejected[against[0].rule]) < REJECTED_OF_A_RULE:
            rule, reason = against[0]
            if family(one) != "hopper" or rule in HOPPER_RULES:
                rejected[rule].append(Candidate(one, rule, reason, render(one, rule)))
    wanted = ACCEPTED | dict.fromkeys((rule.__name__ for rule in FAMILY.rules), REJECTED_OF_A_RULE)
    drawn = [one for group in (*accepted.values(), *rejected.values()) for one in group]
    if len(drawn) != sum(wanted.values()):
        found = {name: len(group) for name, group in (accepted | rejected).items()}
        raise SystemExit(f"too few drawn: {[name for name in wanted if found.get(name) != wanted[name]]}")
    rng.shuffle(drawn)
    return drawn


def kind(config: BlockscaledGemmConfig) -> str:
    """A key of ACCEPTED."""
    return f"{config.arch}{' ultra' * ultra(config)}{' mixed' * mixes_bits(config)}"


def render(config: BlockscaledGemmConfig, rule: str) -> str:
    """The kernel's source; "" where the template has nothing for a field of it."""
    environment = Environment(loader=FileSystemLoader(ROOT / "templates"), undefined=StrictUndefined)
    try:
        variables = FAMILY.variables(config)
    except KeyError:
        return ""
    variables |= {"name": FAMILY.kernel_name(config), "spec": "specs/none.yaml"}
    text = environment.get_template(FAMILY.template(config)).render(variables)
    if rule:  # what a rule rejects has no memory that the model stands for
        text = re.sub(r"(SharedStorageSize|kSharedBytes) == -?\d+", r"\1 > 0", text)
    return text


def compile_one(one: Candidate, toolchain: Toolchain) -> dict[str, Any]:
    """A row of the record: what the rules and nvcc say of a configuration."""
    start = time.monotonic()
    error = nvcc(one, toolchain) if one.text else "no source: the template has nothing for a field"
    return {
        "name": one.name,
        "config": {key: list(x) if isinstance(x, tuple) else x for key, x in asdict(one.config).items()},
        "rule": one.rule,
        "reason": one.reason,
        "compiles": not error,
        "error": error,
        "seconds": round(time.monotonic() - start, 1),
        "source": one.digest,
    }


def nvcc(one: Candidate, toolchain: Toolchain) -> str:
    """The first error of its compilation; "" where there is none."""
    row = {
        **FAMILY.build(one.config),
        "name": one.name,
        "source": "",
        "sha256": "",
        "config": {},
        "facts": {},
    }
    flags = kernel_flags(KernelRecord.parse(row))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{one.name}.cu"
        source.write_text(one.text, encoding="utf-8")
        command = kernel_command(toolchain, paths.include_dir(), source, flags, ())
        environment = {**os.environ, "TMPDIR": folder}  # which nvcc leaves full where it is killed
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # nvcc's children too
                return f"nvcc took more than {TIMEOUT_SECONDS} s"
        if process.returncode == 0:
            return ""
    found = re.search(
        r"^(?:.*/)?([^/\n]*?)(?:\((\d+)\))?: *(?:fatal )?(?:static )?error[^:\n]*: *(.*)", said, re.M
    )
    if found is None:
        return said.strip()[-200:] or f"nvcc exits {process.returncode}"
    return f"{found[1]}: {found[3]}"[:200]


def judge(row: dict[str, Any]) -> str:
    """agree, stricter (for a reason that POLICIES states), or disagree."""
    if bool(row["rule"]) != row["compiles"]:
        return "agree"
    return "stricter" if row["rule"] in STRICTER else "disagree"


def write(path: Path, head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The record as JSON, a row a line, and beside it as a table."""
    rows = sorted(rows, key=lambda row: (row["rule"], row["name"]))
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{json.dumps(head)[:-1]}, "candidates": [\n{body}\n]}}\n', encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(head, rows), encoding="utf-8")


def markdown(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    accepted = sum(1 for row in rows if not row["rule"])
    judged = Counter(judge(row) for row in rows)
    lines = [
        "# Rules against the compiler",
        "",
        f"{head['date']}, nvcc {head['nvcc']}, CUTLASS {head['cutlass']}, {head['host']}.",
        f"{len(rows)} configurations drawn with seed {head['seed']}: the rules accept {accepted} and reject "
        f"{len(rows) - accepted}. {judged['agree']} times nvcc says the same, {judged['stricter']} times the "
        f"rule is stricter (policy), {judged['disagree']} times they disagree.",
        "",
        "Made by `python benchmarks/rules_against_compiler.py`.",
        "",
        "| configuration | rules | nvcc | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        said = f"{row['rule']}: {row['reason']}" if row["rule"] else "accepted"
        answer = row["error"].replace("|", "\\|") or f"compiles ({row['seconds']} s)"
        verdict = judge(row)
        why = f"stricter: {STRICTER[row['rule']]}" if verdict == "stricter" else verdict
        lines.append(f"| {row['name'].removeprefix('blockscaled_gemm_')} | {said} | {answer} | {why} |")
    return "\n".join(lines) + "\n"


def known_rows(path: Path, head: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Rows of an earlier run with this toolchain, by name and source."""
    if not path.is_file():
        return {}
    before = json.loads(path.read_text(encoding="utf-8"))
    if any(before.get(key) != head[key] for key in ("nvcc", "cutlass", "host")):
        return {}
    return {(row["name"], row["source"]): row for row in before["candidates"]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="5.6 GB of memory each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="compile only so many")
    parser.add_argument(
        "--time-limit", type=float, default=3600, help="start no compile after so many seconds"
    )
    parser.add_argument(
        "--output", type=Path, default=ROOT / "benchmarks/results/rules_against_compiler.json"
    )
    return parser.parse_args()


def main() -> int:
    given = arguments()
    toolchain = find_toolchain()
    head: dict[str, Any] = {"seed": given.seed, "date": describe()["date"], **toolchain.describe()}
    known = known_rows(given.output, head)
    drawn = draw(given.seed)
    rows, todo = [], []
    for one in drawn:
        if row := known.get((one.name, one.digest)):
            rows.append(row | {"rule": one.rule, "reason": one.reason})
        else:
            todo.append(one)
    print(f"{len(drawn)} drawn, {len(rows)} known, {len(todo)} to compile", flush=True)
    start = time.monotonic()

    def work(one: Candidate) -> dict[str, Any] | None:
        late = time.monotonic() - start > given.time_limit
        return None if late else compile_one(one, toolchain)

    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(work, one) for one in todo[: given.limit]]):
            if (row := done.result()) is not None:
                rows.append(row)
                said = row["rule"] or "accepted"
                print(
                    f"{len(rows):3} {judge(row):9} {row['seconds']:6} s {said:20} {row['name']}", flush=True
                )
                write(given.output, head, rows)
    wrong = [row for row in rows if judge(row) == "disagree"]
    for row in wrong:
        print(f"disagree: {row['name']}: {row['rule'] or 'accepted'}, {row['error'] or 'compiles'}")
    print(f"{len(rows)} of {len(drawn)} compiled, {len(wrong)} disagree", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
