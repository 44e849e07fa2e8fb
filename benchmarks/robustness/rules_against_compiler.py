"""Do a family's rules and the compiler agree?

    python -m benchmarks.robustness.rules_against_compiler [FAMILY] [--front-end] [--jobs 16]
        [--time-limit 480] [--seed 0] [--limit N]

FAMILY is one that has a sample (`rule_samples.py`). Each configuration is rendered with the real template and
compiled with nvcc as `tilewright build` does; with --front-end, up to the optimiser, where every assertion
has been made, in a third of the time. What the rules accept must compile, with the shared memory that they
computed. What they reject must not, unless the rule says why it is stricter than the compiler. Answers are
written as they come, as JSON and as a table. A second run goes on where the first stopped, and asks again
about sources that have changed since. Until then the record keeps the earlier answer, and its page says how
many there are. `--limit 0` prints them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import describe
from benchmarks.robustness.rule_samples import DRAWS, Candidate, record, sample

from tilewright.base import paths
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.declarations.table import KernelRecord
from tilewright_generator import families

FAMILIES = tuple(DRAWS)
TIMEOUT_SECONDS = 300
_NO_SOURCE = "no source: the template has nothing for it"
Row = dict[str, Any]
TOGETHER = 6  # kernels of a unit: more take more memory and run less in parallel


def units(todo: list[Candidate], front_end: bool) -> Iterator[list[Candidate]]:
    """Candidates that are compiled together: the headers cost more than a kernel does, and a unit of several
    passes the front end only if each of them does. A candidate that may fail is a unit of its own."""
    together: dict[tuple[str, ...], list[Candidate]] = defaultdict(list)
    for candidate in todo:
        if candidate.rule or not front_end:
            yield [candidate]
        else:
            together[flags_of(candidate)].append(candidate)
    for alike in together.values():
        yield from (alike[start : start + TOGETHER] for start in range(0, len(alike), TOGETHER))


def compile_unit(unit: list[Candidate], toolchain: NvccToolchain, front_end: bool) -> list[Row]:
    """Rows of the record: what the rules and nvcc say of each configuration. A configuration that nvcc does
    not end with in time has no row."""
    start = time.monotonic()
    try:
        error = nvcc(unit, toolchain, front_end) if unit[0].source else _NO_SOURCE
    except TimeoutError as late:
        error = str(late)
        if not unit[1:]:
            print(f"no answer: {unit[0].name}: {error}", flush=True)
            return []
    if error and unit[1:]:
        return [row for candidate in unit for row in compile_unit([candidate], toolchain, front_end)]
    seconds = round((time.monotonic() - start) / len(unit), 1)
    return [
        {
            "name": candidate.name,
            "config": {
                key: list(x) if isinstance(x, tuple) else x for key, x in asdict(candidate.config).items()
            },
            "rule": candidate.rule,
            "reason": candidate.reason,
            "compiles": not error,
            "error": error,
            "seconds": seconds,
            "source": candidate.digest,
        }
        for candidate in unit
    ]


def flags_of(candidate: Candidate) -> tuple[str, ...]:
    row = {
        **candidate.family.build(candidate.config),
        "name": candidate.name,
        "source": "",
        "sha256": "",
        "config": {},
        "facts": {},
    }
    return Nvcc().flags(KernelRecord.parse(row))


def nvcc(unit: list[Candidate], toolchain: NvccToolchain, front_end: bool) -> str:
    """The first error of its compilation; "" where there is none. Raises TimeoutError."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{unit[0].name}.cu"
        source.write_text("\n".join(candidate.source for candidate in unit), encoding="utf-8")
        flags = flags_of(unit[0])
        command = Nvcc().command(toolchain, paths.include_dir(), source, flags, ())
        if front_end:  # code for the linker's optimiser is what the front end makes
            command = [re.sub(r"^(-gencode.*code=)sm_", r"\1lto_", word) for word in command]
            # Where an error is expected the host's pass, which comes first, is likely to find it, and soon.
            fails = unit[0].rule and not why_stricter(unit[0].family.name)[unit[0].rule]
            command[command.index("-c")] = "-dc" if fails else "-fatbin"
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
                output, _ = process.communicate(timeout=TIMEOUT_SECONDS * len(unit))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # nvcc's children too
                raise TimeoutError(f"nvcc took more than {TIMEOUT_SECONDS * len(unit)} s") from None
        if process.returncode == 0:
            return ""
    if output.startswith("nvcc fatal"):  # it has not compiled anything
        raise SystemExit(output)
    error = re.search(
        r"^(?:.*/)?([^/\n]*?)(?:\((\d+)\))?: *(?:fatal )?(?:static )?error[^:\n]*: *(.*)", output, re.M
    )
    if error is None:
        return output.strip()[-200:] or f"nvcc exits {process.returncode}"
    return f"{error[1]}: {error[3]}"[:200]


def judge(row: Row, stricter: dict[str, str]) -> str:
    """agree, stricter (for a reason that the rule states), or disagree."""
    if bool(row["rule"]) != row["compiles"]:
        return "agree"
    return "stricter" if stricter.get(row["rule"]) else "disagree"


def write(path: Path, head: dict[str, Any], rows: list[Row]) -> None:
    """The record as JSON, a row a line, and beside it as a table."""
    rows = sorted(rows, key=lambda row: (row["rule"], row["name"]))
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{json.dumps(head)[:-1]}, "candidates": [\n{body}\n]}}\n', encoding="utf-8")
    path.with_suffix(".md").write_text(markdown(head, rows), encoding="utf-8")


def markdown(head: dict[str, Any], rows: list[Row]) -> str:
    stricter = why_stricter(head["family"])
    accepted = sum(1 for row in rows if not row["rule"])
    judged = Counter(judge(row, stricter) for row in rows)
    nvcc = head["nvcc"] + ", its front end alone" * head["front_end"]
    lines = [
        "# Rules against the compiler",
        "",
        f"{head['family']}. {head['date']}, nvcc {nvcc}, CUTLASS {head['cutlass']}, {head['host']}.",
        f"{len(rows)} of {head['drawn']} configurations: the rules accept {accepted} and reject "
        f"{len(rows) - accepted}. {judged['agree']} times nvcc says the same, {judged['stricter']} times the "
        f"rule is stricter, for the reason that it gives, {judged['disagree']} times they disagree.",
        f"To ask about, because they are new or their sources have changed since: {head['to_ask']}.",
        "",
        f"Made by `python -m benchmarks.robustness.rules_against_compiler {head['family']}"
        f"{' --front-end' * head['front_end']}`.",
        "",
        "| configuration | rules | nvcc | |",
        "|---|---|---|---|",
    ]
    for row in rows:
        ruling = f"{row['rule']}: {row['reason']}" if row["rule"] else "accepted"
        answer = row["error"].replace("|", "\\|") or f"compiles ({row['seconds']} s)"
        verdict = judge(row, stricter)
        why = f"stricter: {stricter[row['rule']]}" if verdict == "stricter" else verdict
        lines.append(f"| {row['name'].removeprefix(head['family'] + '_')} | {ruling} | {answer} | {why} |")
    return "\n".join(lines) + "\n"


def why_stricter(family: str) -> dict[str, str]:
    """Why each rule refuses what compiles; "" where nothing should."""
    return {rule.name: rule.compiles for rule in families.get(family).rules}


def known_rows(path: Path, head: dict[str, Any], drawn: list[Candidate]) -> dict[tuple[str, str], Row]:
    """Rows about these candidates by an earlier run with this nvcc and CUTLASS, by name and rule."""
    if not path.is_file():
        return {}
    before = json.loads(path.read_text(encoding="utf-8"))
    if any(before.get(key) != head[key] for key in ("nvcc", "cutlass", "front_end")):
        return {}
    reasons = {(candidate.name, candidate.rule): candidate.reason for candidate in drawn}
    rows = {(row["name"], row["rule"]): row for row in before["candidates"]}
    return {key: row | {"reason": reasons[key]} for key, row in rows.items() if key in reasons}


def to_ask(rows: dict[tuple[str, str], Row], drawn: list[Candidate]) -> list[Candidate]:
    """The candidates that have no row, or one about another source than theirs."""
    return [
        candidate
        for candidate in drawn
        if rows.get((candidate.name, candidate.rule), {}).get("source") != candidate.digest
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "family",
        nargs="?",
        choices=FAMILIES,
        default=FAMILIES[0],
        help="the family whose rules are asked about",
    )
    parser.add_argument("--front-end", action="store_true", help="stop before the optimiser")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="5.6 GB of memory each")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--limit", type=int, help="compile at most this many")
    parser.add_argument(
        "--time-limit", type=float, default=3600, help="start no compile after this many seconds"
    )
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    toolchain = find_toolchain()
    head: dict[str, Any] = {
        "family": options.family,
        "front_end": options.front_end,
        "seed": options.seed,
        "date": describe()["date"],
        **toolchain.describe(),
    }
    output = options.output or record(options.family)
    stricter, drawn = why_stricter(options.family), sample(options.family, options.seed)
    head["drawn"] = len(drawn)
    rows = known_rows(output, head, drawn)
    todo = to_ask(rows, drawn)
    print(f"{len(drawn)} drawn, {len(todo)} to compile", flush=True)
    start = time.monotonic()

    def work(unit: list[Candidate]) -> list[Row]:
        late = time.monotonic() - start > options.time_limit
        return [] if late else compile_unit(unit, toolchain, options.front_end)

    with ThreadPoolExecutor(options.jobs) as pool:
        work_units = units(todo[: options.limit], options.front_end)
        for done in as_completed([pool.submit(work, unit) for unit in work_units]):
            for row in done.result():
                rows[row["name"], row["rule"]] = row
                verdict = row["rule"] or "accepted"
                print(f"{judge(row, stricter):9} {row['seconds']:6} s {verdict:20} {row['name']}", flush=True)
            write(output, head | {"to_ask": len(to_ask(rows, drawn))}, [*rows.values()])
    wrong = [row for row in rows.values() if judge(row, stricter) == "disagree"]
    for row in wrong:
        print(f"disagree: {row['name']}: {row['rule'] or 'accepted'}, {row['error'] or 'compiles'}")
    left = to_ask(rows, drawn)
    for candidate in left:
        print(f"to ask: {candidate.name}: {candidate.rule or 'accepted'}")
    print(f"{len(drawn) - len(left)} of {len(drawn)} compiled, {len(wrong)} disagree", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
