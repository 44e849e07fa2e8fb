"""Proves the bundles of two models by brute force, and records what was proved.

    python -m benchmarks.robustness.bundle_closure [--only qwen3] [--share 1/2] [--again all] [--write]

The bundles are those of `examples/models` for an H200: Qwen3-8B, and DeepSeek-V3 on 8 GPUs. The library's
selection is asked about every value of every problem's extent; no value is left out.

A family whose model answers for one value at a time (all but `gemm`) is asked as a call asks it: its list of
tactics is this proof. `gemm` answers for thousands of values by the same code with arrays in it. Its values
are asked again one at a time, and compared: the first 256, both ends of every range of the list, and others
at random; with `--again all` every value, as `tilewright bundle --prove` does. `asked again` counts them.

It needs no GPU and compiles nothing. It takes half an hour of processor time (an hour with `--again all`),
which runs can share: each proves every N-th problem (`--share 1/N`), and `--write` adds its rows to the
record.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lib import machine, ratios

from tilewright.architectures.device import H200
from tilewright.bundle.manifest import Entry
from tilewright.context import Context
from tilewright.models import configuration, forward
from tilewright.models.forward import Serving
from tilewright.models.product import Listing, Product
from tilewright.selection.families import family_of
from tilewright.selection.family import Family
from tilewright.tools.bundling import closure, planning
from tilewright.tools.bundling.closure import Setting
from tilewright.tools.bundling.planning import Planned

NAME = "bundle_closure.json"
MODELS = Path(__file__).parents[2] / "examples" / "models"
FIRST = 256  # values from the first one that are asked again about
SAMPLES = 200  # values at random that are asked again about
SHOWN = 3  # values of a problem that a record of differences names


class Model(NamedTuple):
    """A config.json of `examples/models`, and how it is divided among GPUs."""

    config: str
    tp: int = 1
    ep: int = 1

    def listing(self, tokens: int) -> Listing:
        serving = Serving(tp=self.tp, ep=self.ep, max_tokens=tokens)
        return forward.products(configuration.read(MODELS / self.config), serving)

    def __str__(self) -> str:
        return f"{self.config} --tp {self.tp} --ep {self.ep}"


BUNDLES = (Model("qwen3-8b.json"), Model("deepseek-v3.json", tp=8, ep=8))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=16384, help="the largest m")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="models whose file name holds this text")
    parser.add_argument("--share", type=ratios.part_of, default=(1, 1), help="I/N: every Nth problem")
    parser.add_argument("--again", type=_number_or_all, default=SAMPLES, help="values at random, or all")
    parser.add_argument("--write", action="store_true", help=f"write benchmarks/results/{NAME}")
    options = parser.parse_args()
    number, count = options.share
    proved = {}
    for model in BUNDLES:
        if options.only in model.config:
            groups = planning.distinct(model.listing(options.tokens).products)
            proved[str(model)] = prove(str(model), groups[number - 1 :: count], options)
    print(json.dumps(proved, indent=1))
    if options.write:
        write(proved, options.tokens)
    return 1 if any(row["differences"] for rows in proved.values() for row in rows) else 0


def _number_or_all(text: str) -> int | None:
    return None if text == "all" else int(text)


def prove(
    title: str, groups: Sequence[tuple[Product, ...]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each of some problems, which several products of a model may be."""
    context = Context()
    setting = Setting(context.registry.folders, H200, batch_invariant=False)
    listing = Listing(title, [product for group in groups for product in group])
    plan = planning.plan(listing, setting, jobs=options.jobs, progress=_say)
    if plan.left_out:
        raise ValueError(f"{title} has products that no kernel computes: {plan.left_out}")
    manifest = plan.manifest(context.registry)
    entries = zip(manifest.entries, plan.problems, strict=True)
    return [row(context, planned, entry, manifest.tactics, options.again) for entry, planned in entries]


def write(proved: Mapping[str, list[dict[str, Any]]], tokens: int) -> None:
    """Adds rows to the record, in place of those of the same problems."""
    path = machine.RESULTS / NAME
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"bundles": {}}
    head = {**machine.describe("numpy"), "gpu": H200.name, "tokens": tokens}
    bundles = content["bundles"]
    for title, rows in proved.items():
        kept = bundles.get(title, {}).get("problems", [])
        merged = list({(*row["layers"], row["problem"], row["to"]): row for row in [*kept, *rows]}.values())
        bundles[title] = {
            **{name: sum(row[name] for row in merged) for name in ("values", "asked again", "differences")},
            "problems": merged,
        }
    machine.record(NAME, json.dumps({**head, "bundles": bundles}, indent=1) + "\n")


def row(
    context: Context, planned: Planned, entry: Entry, tactics: Sequence[str], samples: int | None
) -> dict[str, Any]:
    """A problem's row of the record."""
    values = planned.product.values
    again = again_of(planned, samples)
    _say(f"{', '.join(planned.layers)}: asks again about {len(again):,} values")
    differing = []
    for value in again:
        (chosen,) = closure.choices(context, planned.product, [value], H200, at_once=False)
        if chosen.tactic != tactics[entry.number(value)]:
            differing.append(value)
    return {
        "layers": list(planned.layers),
        "problem": str(planned.product.example),
        "extent": planned.product.extent,
        "from": values[0],
        "to": values[-1],
        "step": values.step,
        "values": len(values),
        "ranges": len(planned.choices),
        "kernels": len(planned.kernels),
        "asked again": len(again),
        "differences": len(differing),
        **({"examples": differing[:SHOWN]} if differing else {}),
    }


def again_of(planned: Planned, samples: int | None) -> list[int]:
    """The values to ask again about: none if the list was made by asking about each."""
    product, values = planned.product, planned.product.values
    family = family_of(product.family)
    if product.extent != family.neighbour or type(family).sweep is Family.sweep:
        return []
    if samples is None or samples >= len(values):
        return list(values)
    firsts = [chosen.first for chosen in planned.choices]
    ends = [value - values.step for value in firsts[1:]]
    drawn = random.Random(str(product.example)).sample(values, samples)
    return sorted({*values[:FIRST], *firsts, *ends, *drawn, values[-1]})


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
