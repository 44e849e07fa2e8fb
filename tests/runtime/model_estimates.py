"""What the cost models say of a sample of kernels, problems and GPUs, and what they said when last written.

    PYTHONPATH=generator:runtime python tests/runtime/model_estimates.py

writes data/model_estimates.json anew. That is for a change of a model that is meant: its review sees what the
change does. Kernels stand in the file whole, because those that are committed may come and go: those that are
gone stay in it, as examples of what a spec may still name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.architectures import routing
from tilewright.architectures.device import B200, B300, DESCRIBED, GB10, H200, RTX_PRO_6000, THOR
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of

FILE = Path(__file__).parent / "data" / "model_estimates.json"
FAMILIES = ("gemm", "blockscaled_gemm", "quantize", "hc_prenorm")
RUBIN = DESCRIBED["rubin"]
DEVICES = {device.name: device for device in (H200, B200, B300, RUBIN, THOR, RTX_PRO_6000, GB10)}
_PRODUCTS = [
    {"m": 16, "n": 2112, "k": 7168}, {"m": 96, "n": 8192, "k": 1536}, {"m": 32, "n": 5120, "k": 25600},
    {"m": 1000, "n": 1024, "k": 4096, "batch": 3}, {"m": 4096, "n": 8192, "k": 8192},
    {"m": 32768, "n": 16384, "k": 4096}, {"m": 2048, "n": 4096, "k": 4096},
    {"m": 8320, "n": 8320, "k": 8192}, {"m": 300, "n": 28672, "k": 4096},
]  # fmt: skip
_MATRICES = [{"m": 1, "k": 4096}, {"m": 100, "k": 7168}, {"m": 5000, "k": 2048}, {"m": 65536, "k": 16384}]
_NARROW = [
    {"m": 13, "n": 24, "k": 640}, {"m": 64, "n": 24, "k": 6144}, {"m": 4096, "n": 24, "k": 28672},
    {"m": 300, "n": 8, "k": 7680, "splits": 16}, {"m": 16896, "n": 24, "k": 7168},
]  # fmt: skip
_SHAPES = {
    "gemm": _PRODUCTS, "blockscaled_gemm": _PRODUCTS, "quantize": _MATRICES, "hc_prenorm": _NARROW,
}  # fmt: skip
_LAYOUTS = {"fp8_1x128": "m_major", "fp8_128x1": "row_major", "fp8_128x128": "row_major"}  # of scales
_SORT = (
    "a", "b", "schedule", "scheduler", "fast_accum", "swap_ab", "store", "prefetch", "direction", "format",
    "x", "variant", "arithmetic", "fusion",
)  # fmt: skip
_EACH = {"gemm": 2, "blockscaled_gemm": 5, "quantize": 2, "hc_prenorm": 12}  # kernels of one sort
_OF_ONE = 2  # problems of a kernel
_FACTS = ("smem_bytes", "threads", "stages", "block", "cluster_multiple", "subtiles")  # that models read


class Estimate(NamedTuple):
    """One call of a cost model, and its answer."""

    family: str
    kernel: str
    device: str
    problem: dict[str, Any]
    tactic: str
    us: float
    bound: str


def estimate(
    family: str, record: KernelRecord, device: str, problem: dict[str, Any], tactic: str
) -> Estimate:
    of = family_of(family)
    weigh = of.estimator(record, of.problem(**problem), DEVICES[device])
    assert weigh is not None
    actual = weigh(Tactic.parse(tactic))
    return Estimate(family, record.name, device, problem, tactic, actual.seconds * 1e6, actual.bound)


def sample() -> Iterator[tuple[KernelRecord, Estimate]]:
    """Problems for each sort of kernel that is committed, and for some that might be, on GPUs that run it."""
    chance, registry = random.Random(5), Registry()
    for name in FAMILIES:
        family = family_of(name)
        sorts: dict[Any, list[KernelRecord]] = {}
        for record in registry.kernels(name):
            for kernel in (record, *_kin(record)):
                sorts.setdefault(_sort(kernel), []).append(kernel)
        for records in sorts.values():
            few = chance.sample(records, min(_EACH[name], len(records)))
            for record in (kernel for kernel in few for _ in range(_OF_ONE)):
                gpus = [gpu for gpu in DEVICES.values() if routing.runs_on(record.arch, gpu.capability)]
                device = chance.choice(gpus)
                problem = chance.choice(_SHAPES[name]) | chance.choice(_kinds(name, record.config))
                tactics = family.candidates(record, family.problem(**problem), device)
                chosen = [chance.choice(tactics)]
                # Of stream-K's ways to cut k, the one of that name is one of nine.
                chosen += [
                    tactic
                    for tactic in tactics
                    if tactic.decomposition == "stream_k" and tactic not in chosen
                ]
                for tactic in chosen:
                    yield record, estimate(name, record, device.name, problem, str(tactic))


def _kin(record: KernelRecord) -> Iterator[KernelRecord]:
    """Kernels that a spec might name and none does, for what the models know of them."""
    if record.config.get("cluster") == [2, 1]:
        for cluster in ([4, 1], [4, 2]):
            name = record.name.replace("_2x1_", f"_{cluster[0]}x{cluster[1]}_")
            yield record._replace(name=name, config={**record.config, "cluster": cluster})
    if record.config.get("fusion") == "silu_mul":
        yield record._replace(name=f"{record.name}_fast", config={**record.config, "arithmetic": "fast"})


def _sort(record: KernelRecord) -> Any:
    """What of its configuration the models look at, but for sizes."""
    major = record.arch[: len("sm_107" if record.arch.startswith("sm_107") else "sm_10")]
    if "direction" in record.config and major != "sm_90":
        major = "later"  # one to the models of quantising
    return major, str(record.config.get("cluster")), tuple(map(record.config.get, _SORT))


def _kinds(family: str, config: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of problems that a kernel computes, but for extents."""
    if family == "quantize":
        names = ("direction", "format", "x", "fusion")
        kind = {name: config[name] for name in names} | {"exact": config["arithmetic"] == "exact"}
        return [kind | {"layout": _LAYOUTS.get(config["format"], "128x4")}]
    if "c" not in config:
        return [{}]
    names = ("a", "b", "d", "layout", "fast_accum", "bias", "activation")
    kind = {name: config[name] for name in names if name in config}
    if kind.get("activation") == "given":
        kind["activation"] = "gelu"
    return [kind | {"c": c} for c in ((False, True) if config["c"] == "same" else (False,))]


def read() -> tuple[dict[str, KernelRecord], list[Estimate]]:
    kernels, estimates = {}, []
    for family, name, arch, config, facts, rows in json.loads(FILE.read_text(encoding="utf-8")):
        kernels[name] = KernelRecord(name, "", "", arch, (), (), config, facts)
        for device, problem, arguments, us, bound in rows:
            tactic = f"{name}@{arguments}" if arguments else name
            estimates.append(Estimate(family, name, device, problem, tactic, us, bound))
    return kernels, estimates


def gone() -> Iterator[tuple[KernelRecord, Estimate]]:
    """The kernels in the file that no table lists any more, with what the models say now."""
    listed = {
        kernel.name
        for name in FAMILIES
        for record in Registry().kernels(name)
        for kernel in (record, *_kin(record))
    }
    kernels, rows = read()
    for row in rows:
        if row.kernel not in listed:
            record = kernels[row.kernel]
            yield record, estimate(row.family, record, row.device, row.problem, row.tactic)


def write() -> None:
    """Each kernel in a line, and each of its estimates, with the arguments of the tactic."""
    kernels: dict[str, list[Any]] = {}
    estimates: dict[str, dict[str, None]] = {}
    for record, actual in [*gone(), *sample()]:
        facts = {name: record.facts[name] for name in _FACTS if name in record.facts}
        kernels[record.name] = [actual.family, record.name, record.arch, record.config, facts]
        arguments = actual.tactic.partition("@")[2]
        row = [actual.device, actual.problem, arguments, float(f"{actual.us:.9g}"), actual.bound]
        estimates.setdefault(record.name, {})[_compact(row)] = None
    lines = []
    for name, kernel in kernels.items():
        rows = ",\n".join(estimates[name])
        lines.append(f"{_compact(kernel).removesuffix(']')},[\n{rows}]]")
    FILE.write_text("[{}]\n".format(",\n".join(lines)), encoding="utf-8", newline="\n")


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    write()
