"""Kills `tilewright tune` again and again, and looks at what is left; for the machine with the GPU.

    python -m benchmarks.robustness.kill_tune [--kills 10] [--seed N] [--write]
        [-- ARGUMENTS OF tilewright tune]

Each time it starts a tune into the same folder, waits for a result, and kills it with all its workers
(SIGKILL) at a random moment. Then the tuned file must load, and hold every entry that was ever seen in it or
reported as written. At last a tune runs to the end, and nothing is missing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import describe, record, require_gpu

from tilewright.selection import tuned_files

_LAYERS = ((6144, 4096), (4096, 7168), (7168, 2048), (2112, 7168), (4096, 4096), (2048, 2048))
_SIZES = [f"{m}x{n}x{k}" for m in (1, 8, 32, 64, 128, 256, 1024) for n, k in _LAYERS]
DEFAULT = ["--dtype", "bf16", "--built-only", *(word for size in _SIZES for word in ("-s", size))]
_REPORTED = re.compile(r"^\[\d+/\d+\] .*: [\d.]+ us ", re.MULTILINE)  # a line of its progress
_START_SECONDS = 300.0  # for a tune to write its first result


def entries(file: Path) -> dict[str, dict[str, Any]]:
    """The entries of a tuned file, by problem. Raises TunedFileError if the file does not load."""
    try:
        sections = tuned_files.read(file).sections
    except FileNotFoundError:
        return {}
    tactics = {}
    for section in sections:
        for row in section.rows:
            extents = {key: value for key, value in row.items() if key not in ("tactic", "seconds")}
            tactics[json.dumps([section.kind, extents])] = row
    return tactics


def kill_once(command: Sequence[str], file: Path, moment: float) -> dict[str, Any]:
    """Starts the command, waits until it has written one more entry, then `moment` seconds more; kills it and
    all that it started. Says what the file holds afterwards, and whether anything is lost."""
    before = entries(file)
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        deadline = time.monotonic() + _START_SECONDS
        seen = before
        while len(seen) <= len(before) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
            seen = entries(file)  # while it is written: it always loads
        time.sleep(moment)
        seen = entries(file)
        ended = process.poll()
        with contextlib.suppress(ProcessLookupError):  # it had ended
            os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[1].decode(errors="replace")
    after = entries(file)
    reported = len(_REPORTED.findall(output))
    return {
        "before": len(before),
        "reported": reported,
        "unwritten": max(0, reported - (len(after) - len(before))),  # reported, and not there
        "seen": len(seen),
        "after": len(after),
        "lost": [key for key in {**before, **seen} if key not in after],
        "changed": [key for key, row in before.items() if after.get(key, row) != row],
        "ended_before": ended,
        "messages": output.splitlines()[-1:] if ended else [],
    }


def hammer(command: Sequence[str], file: Path, kills: int, seed: int, longest: float) -> dict[str, Any]:
    """Kills the command `kills` times, each at a moment within `longest` seconds after a result; then lets it
    end. `ok`: the file always loaded, and no entry was ever lost or changed."""
    moments = random.Random(seed)
    rows = []
    for _ in range(kills):
        rows.append(kill_once(command, file, moments.uniform(0, longest)))
        print(json.dumps(rows[-1]), flush=True)
    before = entries(file)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    final = entries(file)
    killed = sum(row["ended_before"] is None for row in rows)
    lost = [key for key in before if final.get(key) != before[key]]
    return {
        "kills": killed,
        "entries": len(final),
        "after_the_kills": len(before),
        "exit_code": done.returncode,
        "lost": lost,
        "last_lines": (done.stdout + done.stderr).splitlines()[-2:],
        "rows": rows,
        "ok": done.returncode == 0
        and not lost
        and not any(row["lost"] or row["changed"] or row["unwritten"] for row in rows),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10, help="number of runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    parser.add_argument("--longest", type=float, default=0.8, help="seconds after a result, at most")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/kill_tune.json")
    parser.add_argument("arguments", nargs="*", help="of `tilewright tune`, after --")
    options = parser.parse_args()
    require_gpu()
    arguments = options.arguments or DEFAULT
    with tempfile.TemporaryDirectory() as folder:
        script = "from tilewright_generator.cli import main; main()"
        command = [sys.executable, "-c", script, "tune", *arguments, "--out", folder]
        family = arguments[arguments.index("--family") + 1] if "--family" in arguments else "gemm"
        result = hammer(command, _file(folder, family), options.kills, options.seed, options.longest)
    text = json.dumps({**result, "arguments": arguments, "machine": describe()}, indent=1) + "\n"
    print(json.dumps({name: value for name, value in result.items() if name != "rows"}, indent=1))
    if options.write:
        record("kill_tune.json", text)
    return 0 if result["ok"] and result["kills"] == options.kills else 1


def _file(folder: str, family: str) -> Path:
    import torch  # noqa: PLC0415 (the test of `hammer` needs no GPU)

    from tilewright.base import paths  # noqa: PLC0415

    return paths.tuned_file(Path(folder), torch.cuda.get_device_name(), family)


if __name__ == "__main__":
    sys.exit(main())
