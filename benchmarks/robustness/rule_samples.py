"""Configurations of which `rules_against_compiler` asks the rules and the compiler.

`blockscaled_gemm`: drawn at random over all architectures, half that every rule accepts, half that exactly
one rule rejects, two for each rule. `gemm`: every tile N, some with other operands, layouts, depths and
schedules, and two for each rule. `grouped_gemm` and `blockscaled_grouped_gemm`: CUTLASS's collectives for
tcgen05, drawn at random, some accepted and some that one rule rejects.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tilewright.base.spelling import text
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.families.blockscaled_gemm import mma_rules, rubin_rules
from tilewright.families.blockscaled_gemm import tcgen05_rules as blockscaled_tcgen05_rules
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    Architecture,
    BlockscaledGemmConfig,
)
from tilewright.families.blockscaled_gemm.problem import Format
from tilewright.families.blockscaled_grouped_gemm.config import BlockscaledGroupedGemmConfig
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS
from tilewright.families.gemm import cute_dsl_rules, tcgen05_rules
from tilewright.families.gemm.config import GemmConfig
from tilewright.families.grouped_gemm.config import GroupedGemmConfig
from tilewright_generator import families
from tilewright_generator.families import Family
from tilewright_generator.fields import fields_of
from tilewright_generator.rules import verdicts

ROOT = Path(__file__).parents[2]
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
MOST_DRAWS = 400_000  # of random configurations of block-scaled kernels
# Rules of kernels that are not drawn: of our mainloops for Blackwell, and of those that need CUTLASS 4.8.
NOT_DRAWN = (*mma_rules.RULES, *blockscaled_tcgen05_rules.RULES, *rubin_rules.RULES)
HOPPER_RULES = {"quantized_output", "hopper_tile", "hopper_depth", "settled_fields"}
CHOICES: dict[str, tuple[Any, ...]] = {
    "arch": ARCHES,
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
    "bias": (False, False, False, True),
    "activation": ("none", "none", "none", "given"),
    "cutlass": ("4.2",),
}
FIELDS = {
    name: CHOICES.get(name) or get_args(hint)
    for name, hint in get_type_hints(BlockscaledGemmConfig).items()
    if name != "mainloop"  # the sample has CUTLASS's kernels and those of Hopper
}
# What is drawn more often where it is the usual choice: else nearly all are rejected for two things at once.
USUAL: dict[Architecture, dict[str, tuple[Any, ...]]] = {
    HOPPER: {
        "schedule": ("cooperative",),
        "cluster": (Cluster(1, 1),),
        "scheduler": ("data_parallel",),
        "store": ("tma",),
        "prefetch": ("tma",),
        "swap_ab": (True,),
        "stages": ("auto",),
    },
    TCGEN05: {"schedule": ("1sm", "2sm"), "prefetch": ("tma",)},
    SM120: {
        "schedule": ("cooperative", "pingpong"),
        "cluster": (Cluster(1, 1),),
        "store": ("tma",),
        "prefetch": ("tma",),
    },
}


@dataclass(frozen=True)
class Candidate:
    """A configuration, the rule that rejects it ("" for none) and its reason; its source as nvcc gets it."""

    family: Family
    config: Any
    rule: str
    reason: str
    source: str

    @property
    def name(self) -> str:
        return self.family.kernel_name(self.config)

    @property
    def digest(self) -> str:
        """A hash of all that decides the compiler's answer but the headers."""
        build = json.dumps(self.family.build(self.config))
        return hashlib.sha256((self.source + build).encode()).hexdigest()[:16]


def candidate(of: Family, config: Any) -> Candidate | None:
    """The candidate of a configuration; None if more than one rule rejects it, because the compiler could not
    say which of them is right."""
    against = verdicts(of, config)
    if len(against) > 1:
        return None
    rule, reason = (against[0].rule, against[0].reason) if against else ("", "")
    return Candidate(of, config, rule, reason, render(of, config, rule))


def sample(name: str, seed: int) -> list[Candidate]:
    """The candidates of a family, in the order in which they are compiled: at random, so that a first half
    is a sample too."""
    of = families.get(name)
    candidates = list(DRAWS[name](of, seed))
    random.Random(seed).shuffle(candidates)
    return candidates


BF16 = GemmConfig("sm_90a", "bf16", "bf16", "bf16", Tile(128, 128, 64))
FEW_ROWS = replace(BF16, schedule="pingpong", swap_ab=True)
LEAN = replace(BF16, mainloop="lean", cluster="dynamic", bias=True)
STREAM = replace(BF16, mainloop="stream", swap_ab=True, bias=True, tile=Tile(16, 8, 128))
MMA = replace(BF16, arch="sm_120f", mainloop="mma", bias=True)
# About sources that nvcc does not compile.
NOT_NVCCS = {rule.name for rule in (*cute_dsl_rules.RULES, *tcgen05_rules.RULES)}
OTHERS = (  # what else may decide which N compile, each with its tile K
    (replace(BF16, a="e4m3", b="e4m3", fast_accum=True), 128),
    (replace(BF16, a="tf32", b="tf32", d="f32"), 32),
    (replace(BF16, a="s8", b="s8", d="s32", acc="s32"), 128),
    (replace(BF16, layout="nt"), 64),
    (replace(BF16, d="f32", c="none"), 64),
    (BF16, 128),
    (BF16, 32),
    (BF16, 16),
)
GEMM_REJECTED: tuple[GemmConfig, ...] = (  # two of each rule
    replace(BF16, a="e4m3", b="e5m2", tile=Tile(128, 128, 128)),
    replace(BF16, a="e5m2", b="e5m2", tile=Tile(128, 128, 128)),
    replace(BF16, d="f16"),
    replace(BF16, a="f16", b="f16", d="bf16"),
    replace(BF16, a="tf32", b="tf32", d="f32", layout="nn", tile=Tile(128, 128, 32)),
    replace(BF16, a="e4m3", b="e4m3", layout="tt", fast_accum=True, tile=Tile(128, 128, 128)),
    replace(BF16, tile=Tile(96, 128, 64), schedule="pingpong"),
    replace(BF16, tile=Tile(32, 128, 64), schedule="pingpong"),
    replace(BF16, tile=Tile(384, 64, 64)),
    replace(BF16, tile=Tile(128, 272, 64)),
    replace(FEW_ROWS, tile=Tile(64, 8, 64), stages=5),
    replace(FEW_ROWS, tile=Tile(64, 8, 32), stages=3),
    replace(BF16, tile=Tile(128, 128, 48)),
    replace(BF16, tile=Tile(128, 64, 256)),
    replace(BF16, tile=Tile(64, 128, 64)),
    replace(BF16, tile=Tile(192, 128, 64)),
    replace(BF16, tile=Tile(256, 256, 64)),
    replace(BF16, a="e4m3", b="e4m3", tile=Tile(128, 256, 128)),
    replace(BF16, cluster=Cluster(4, 4)),
    replace(BF16, cluster=Cluster(3, 1)),
    replace(BF16, tile=Tile(128, 16, 64), cluster=Cluster(4, 1)),
    replace(BF16, tile=Tile(128, 48, 64), cluster=Cluster(4, 1)),
    replace(BF16, schedule="pingpong", scheduler="stream_k"),
    replace(FEW_ROWS, scheduler="stream_k"),
    replace(BF16, fast_accum=True),
    replace(BF16, a="s8", b="s8", d="s32", acc="s32", fast_accum=True, tile=Tile(128, 128, 128)),
    replace(BF16, a="e4m3", b="e4m3", tile=Tile(128, 64, 256)),
    replace(BF16, a="e5m2", b="e4m3", tile=Tile(128, 64, 256)),
    replace(BF16, a="s8", b="s8", d="s32", acc="s32", activation="gelu", tile=Tile(128, 128, 128)),
    replace(BF16, a="s8", b="s8", d="s32", acc="s32", activation="silu", tile=Tile(128, 128, 128)),
    replace(BF16, tile=Tile(128, 256, 64), stages=9),
    replace(BF16, tile=Tile(256, 128, 128), d="f32"),
    replace(LEAN, a="tf32", b="tf32", d="f32", tile=Tile(128, 128, 32)),
    replace(LEAN, a="s8", b="s8", d="s32", acc="s32", tile=Tile(128, 128, 128)),
    replace(LEAN, tile=Tile(128, 112, 64), cluster=Cluster(2, 1)),
    replace(LEAN, scheduler="stream_k"),
    replace(LEAN, tile=Tile(192, 120, 64)),
    replace(LEAN, tile=Tile(192, 104, 64)),
    replace(LEAN, tile=Tile(128, 64, 32)),
    replace(LEAN, tile=Tile(128, 64, 16)),
    replace(LEAN, tile=Tile(128, 136, 64)),
    replace(LEAN, tile=Tile(128, 152, 64)),
    replace(LEAN, tile=Tile(256, 192, 64)),
    replace(LEAN, a="e4m3", b="e4m3", tile=Tile(128, 192, 128)),
    replace(LEAN, tile=Tile(128, 160, 64), bias=False),
    replace(LEAN, tile=Tile(128, 176, 64), c="none"),
    replace(LEAN, activation="gelu"),
    replace(BF16, activation="given"),
    replace(LEAN, stages=7),
    replace(LEAN, tile=Tile(256, 128, 64), stages=5),
    replace(STREAM, layout="nn"),
    replace(STREAM, tile=Tile(16, 16, 128)),
    replace(STREAM, schedule="pingpong"),
    replace(STREAM, bias=False),
    replace(LEAN, arch="sm_120f", tile=Tile(64, 64, 64)),
    replace(STREAM, arch="sm_120f"),
    replace(MMA, tile=Tile(192, 40, 64)),
    replace(MMA, layout="nt", tile=Tile(64, 96, 64)),
    replace(LEAN, tile=Tile(128, 160, 64), activation="given", plain_forms=True),
    replace(LEAN, tile=Tile(128, 160, 64), d="f32", plain_forms=True),
    replace(LEAN, tile=Tile(128, 160, 64), split_form=True),
    replace(LEAN, tile=Tile(64, 24, 64), c="none", activation="silu_mul"),
    replace(LEAN, tile=Tile(64, 8, 64), c="none", activation="silu_mul"),
)


def gemm(of: Family, _: int) -> Iterator[Candidate]:
    """Every N of an instruction, some of them with the other schedule and operands; two of each rule."""
    configs = [replace(FEW_ROWS, tile=Tile(64, n, 64)) for n in range(8, 257, 8)]
    configs += [replace(BF16, tile=Tile(128, n, 64)) for n in (8, 16, 24, 72, 104, 152, 160, 176, 240, 248)]
    configs += [replace(base, tile=Tile(128, n, k)) for base, k in OTHERS for n in (8, 24)]
    for config in dict.fromkeys((*configs, *GEMM_REJECTED)):
        if (drawn := candidate(of, config)) is not None:
            yield drawn
        elif config in GEMM_REJECTED:
            raise SystemExit(f"{of.kernel_name(config)} is rejected by more than one rule")
    rejected = {
        rejection.rule for rejection in (candidate(of, config) for config in GEMM_REJECTED) if rejection
    }
    if missing := {rule.name for rule in of.rules} - rejected - NOT_NVCCS:
        raise SystemExit(f"no candidate for the rules {missing}")


# Operands and scale factors of groups on tcgen05, with the tile depths that are drawn.
GROUPED_KINDS = (
    ("e4m3", "e4m3", "1x32_ue8m0", (128, 256)),
    ("e4m3", "mxfp4", "1x32_ue8m0", (128, 256)),
    ("mxfp4", "mxfp4", "1x32_ue8m0", (128, 256)),
    ("e4m3", "e4m3", "128x128", (128, 256)),
    ("e4m3", "e4m3", "1x128", (128,)),
    ("bf16", "bf16", "none", (64, 128)),
)
GROUPED = {"": 18, "tcgen05_tile": 8, "shared_memory": 2, "settled_fields": 2}  # "" for what is accepted
BLOCKSCALED_GROUPED = {"": 16, "formats": 4, "tile_sides": 4, "tile_depth": 3, "shared_memory": 3}


def counted(
    of: Family, seed: int, counts: Mapping[str, int], draw: Callable[[random.Random], Any]
) -> Iterator[Candidate]:
    """Candidates that `draw` makes, as many of each rule as `counts` says."""
    rng = random.Random(seed)
    left, seen = dict(counts), set()
    while any(left.values()):
        config = draw(rng)
        drawn = None if config in seen else candidate(of, config)
        seen.add(config)
        if drawn is not None and left.get(drawn.rule):
            left[drawn.rule] -= 1
            yield drawn


def grouped(of: Family, seed: int) -> Iterator[Candidate]:
    """Kernels of `grouped_gemm` on tcgen05."""

    def draw(rng: random.Random) -> GroupedGemmConfig:
        a, b, scales, depths = rng.choice(GROUPED_KINDS)
        tile = Tile(
            rng.choice((64, 128, 128, 128)), rng.choice((16, 32, 64, 96, 128, 192, 256)), rng.choice(depths)
        )
        return GroupedGemmConfig(
            "sm_100f", a, b, rng.choice(("bf16", "f32")), scales, tile, swap_ab=rng.random() < 0.5,
            pdl=rng.random() < 0.1, stages=rng.choice(("auto", "auto", "auto", 2, 16)), mainloop="tcgen05",
            schedule=rng.choice(("1sm", "2sm")),
        )  # fmt: skip

    return counted(of, seed, GROUPED, draw)


def blockscaled_grouped(of: Family, seed: int) -> Iterator[Candidate]:
    """Kernels of `blockscaled_grouped_gemm`."""

    def draw(rng: random.Random) -> BlockscaledGroupedGemmConfig:
        usual = rng.choice(tuple(OUTPUTS))
        a, b = usual if rng.random() < 0.8 else rng.choices(get_args(Format), k=2)
        tile = Tile(
            rng.choice((64, 128, 128, 128)),
            rng.choice((32, 64, 96, 128, 192, 256)),
            rng.choice((64, 128, 128, 256, 256, 768)),
        )
        return BlockscaledGroupedGemmConfig(
            "sm_100f", a, b, rng.choice(("bf16", "f16", "f32")), tile, rng.choice(("1sm", "2sm")),
            swap_ab=rng.random() < 0.5, stages=rng.choice(("auto", "auto", "auto", 2, 16)),
        )  # fmt: skip

    return counted(of, seed, BLOCKSCALED_GROUPED, draw)


def random_config(arch: str, rng: random.Random) -> BlockscaledGemmConfig:
    values = {name: rng.choice(choices) for name, choices in FIELDS.items()} | {"arch": arch}
    if rng.random() < 0.7:
        values["b"] = values["a"]
    usual = USUAL[BlockscaledGemmConfig(**values).architecture]
    values |= {name: rng.choice(choices) for name, choices in usual.items() if rng.random() < 0.9}
    if BlockscaledGemmConfig(**values).ultra:
        values["pdl"] = rng.choice((False, True))
    return BlockscaledGemmConfig(**values)


def record(family: str) -> Path:
    """The path of the answers about a family."""
    name = "rules_against_compiler" + (f"_{family}" if family != "blockscaled_gemm" else "")
    return ROOT / "benchmarks/results" / f"{name}.json"


def recorded(of: Family) -> Iterator[Any]:
    """The configurations of the family's record."""
    fields = fields_of(of)
    for row in json.loads(record(of.name).read_text(encoding="utf-8"))["candidates"]:
        texts = {key: text(x) if isinstance(x, list) else x for key, x in row["config"].items()}
        yield of.config(**{key: fields[key].parse(value) for key, value in texts.items()})


def blockscaled(of: Family, seed: int) -> list[Candidate]:
    """As many configurations of each kind as ACCEPTED and REJECTED_OF_A_RULE say: those of the record, whose
    answers stay in use when a field or a rule is added, and random ones."""
    rng = random.Random(seed)
    drawn_configs = (random_config(rng.choice(ARCHES), rng) for _ in range(MOST_DRAWS))
    asked = [rule.name for rule in of.rules if rule not in NOT_DRAWN]
    lacking = Counter(ACCEPTED | dict.fromkeys(asked, REJECTED_OF_A_RULE))
    drawn: dict[str, list[Candidate]] = defaultdict(list)
    seen: set[BlockscaledGemmConfig] = set()
    for config in itertools.chain(recorded(of), drawn_configs):
        if config in seen:
            continue
        seen.add(config)
        against = verdicts(of, config)
        rule, reason = (against[0].rule, against[0].reason) if against else ("", "")
        name = rule or kind(config)
        if len(against) > 1 or not lacking[name]:
            continue
        if not rule or config.architecture is not HOPPER or rule in HOPPER_RULES:
            drawn[name].append(Candidate(of, config, rule, reason, render(of, config, rule)))
            lacking[name] -= 1
            if not lacking.total():
                return [candidate for group in drawn.values() for candidate in group]
    raise SystemExit(f"too few drawn: {sorted(+lacking)}")


DRAWS: dict[str, Callable[[Family, int], Iterable[Candidate]]] = {
    "blockscaled_gemm": blockscaled,
    "gemm": gemm,
    "grouped_gemm": grouped,
    "blockscaled_grouped_gemm": blockscaled_grouped,
}


def kind(config: BlockscaledGemmConfig) -> str:
    """A key of ACCEPTED."""
    return f"{config.arch}{' ultra' * config.ultra}{' mixed' * config.mixes_bits}"


def render(of: Family, config: Any, rule: str) -> str:
    """The kernel's source; "" where the template has nothing for a field of it."""
    environment = Environment(loader=FileSystemLoader(ROOT / "templates"), undefined=StrictUndefined)
    try:
        variables = of.variables(config)
    except KeyError:
        return ""
    variables |= {"name": of.kernel_name(config), "spec": "specs/none.yaml"}
    source = environment.get_template(of.template(config)).render(variables)
    if rule:  # what a rule rejects has no memory that the model stands for
        source = re.sub(r"(SharedStorageSize|kSharedBytes) == -?\d+", r"\1 > 0", source)
    return source
