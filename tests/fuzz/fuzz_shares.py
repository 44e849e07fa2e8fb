"""Work in several processes, of which each answers counts; and their sum."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_LARGEST = ("longest_cpu_seconds", "largest_peak_bytes", "own_peak_bytes")


def run(work: Callable[[int], dict[str, Any]], processes: int, place: Path) -> list[dict[str, Any]]:
    """What `work` answers for 0, 1, ... in a process each. Raises RuntimeError where one fails."""
    children = []
    for share in range(processes):
        child = os.fork()
        if not child:
            _become(lambda share=share: work(share), place / f"{share}.json")  # type: ignore[misc]
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    if any(ended):
        raise RuntimeError("a process of the fuzzer has failed")
    return [json.loads((place / f"{share}.json").read_text("utf-8")) for share in range(processes)]


def summed(shares: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all shares: numbers are added up, or the largest is taken; lists are joined."""
    result = dict(shares[0])
    for share in shares[1:]:
        if share["longest_cpu_seconds"] > result["longest_cpu_seconds"]:
            result["longest"] = share["longest"]
        for name, value in share.items():
            if name in _LARGEST:
                result[name] = max(result[name], value)
            elif isinstance(value, dict):
                names = [*result[name], *(key for key in value if key not in result[name])]
                result[name] = {key: result[name].get(key, 0) + value.get(key, 0) for key in names}
            elif isinstance(value, (int, list)) and name != "seed":
                result[name] += value
    return result


def _become(work: Callable[[], dict[str, Any]], answer: Path) -> None:
    """The forked process: it never returns."""
    code = 1
    try:
        answer.write_text(json.dumps(work()), encoding="utf-8")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
