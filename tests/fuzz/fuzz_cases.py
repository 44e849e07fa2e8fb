"""What is spoilt, and which commands then meet it. Nothing is compiled, and nothing leaves the folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fuzz_changes as mutate
import fuzz_corpus
import fuzz_project

from tilewright_generator.cli import COMMANDS

Command = list[str]

_GENERATOR: tuple[Command, ...] = (
    ["generate"], ["generate", "--force"], ["generate", "--dry-run", "--diff"], ["generate", "--json"],
    ["generate", "hopper"], ["generate", "--filter", "*128x128*"], ["check"], ["check", "--diff"],
    ["check", "--json"], ["list"], ["list", "--json"], ["list", "-l"], ["explain", "tile=128x128x64"],
    ["explain", "gemm", "arch=sm_90a", "a=bf16", "b=bf16", "d=bf16", "tile=256x256x64"], ["schema"],
)  # fmt: skip
_PROBLEMS: tuple[Command, ...] = (
    ["gemm", "bf16", "m=16", "n=4096", "k=4096", "--device", "h200"],
    ["gemm", "fp8", "m=100", "n=4096", "k=4096", "fast_accum=true", "bias=true"],
    ["blockscaled_gemm", "nvfp4", "m=64", "n=4096", "k=4096", "--device", "b200"],
    ["blockscaled_gemm", "nvfp4", "m=64", "n=4096", "k=4096", "--device", "rtx-pro-6000"],
    ["quantize", "nvfp4", "m=512", "k=4096", "--device", "h200"],
    ["quantize", "fp8_1x128", "m=512", "k=4096", "direction=dequantize", "--device", "b200"],
)
EXPLAIN: tuple[Command, ...] = tuple(["explain", "--problem", *words] for words in _PROBLEMS)
_DRY_BUILD: Command = ["build", "--dry-run", "--cache", "cache"]
_TUNE: Command = ["tune", "--dry-run", "--out", "tuned", "--device", "h200"]
_READERS: tuple[Command, ...] = (
    *EXPLAIN, ["doctor"], ["doctor", "--device", "h200"], ["doctor", "--json"], ["list", "--built"],
    ["list", "--json", "--device", "h200"], ["status"], ["status", "--check"],
    _DRY_BUILD, [*_DRY_BUILD, "--json"], [*_TUNE, "-s", "16x4096x4096"],
    [*_TUNE, "--family", "quantize", "-s", "64x4096"], ["check"], ["generate"],
    ["bench", "compare", "schedule=cooperative", "schedule=pingpong", "-s", "16x4096x4096"],
)  # fmt: skip
_TUNED: tuple[Command, ...] = (
    *EXPLAIN, ["doctor", "--device", "h200"], ["list", "--tuned", "--device", "h200"], ["check"],
    ["tune", "--merge", "tuned/nvidia_h200/gemm.json", "--out", "merged"],
    ["tune", "--merge", "tuned/nvidia_h200/gemm.json", "tuned/nvidia_h200/quantize.json", "--out", "tuned"],
    ["tune", "--report", "report.html", "--device", "h200"],
    ["tune", "--report", "report.svg", "tuned/nvidia_h200/quantize.json"],
    [*_TUNE, "-s", "16x4096x4096"], [*_TUNE, "--only-new"],
)  # fmt: skip
_RECORDS: tuple[Command, ...] = (
    ["status"], ["status", "--json"], ["status", "--check"], ["status", "--check", "--release"],
    ["status", "--record", "report.json"],
    ["list", "--verified"], ["list", "-l"],
)  # fmt: skip
_CACHE: tuple[Command, ...] = (
    _DRY_BUILD, [*_DRY_BUILD, "--json"], [*_DRY_BUILD, "--strict"], ["cache", "--cache", "cache"],
    ["cache", "--cache", "cache", "--prune", "--older-than", "0"],
    ["cache", "--cache", "cache", "--prune", "--dry-run"],
    ["cache", "--cache", "cache", "--json"],
    ["doctor"], ["list", "--built"], ["list"],
    *EXPLAIN,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A kind of file: where there are some, how they are spoilt, and who reads them."""

    name: str
    paths: Sequence[str]  # globs in the project
    commands: Sequence[Command]
    rows: str | None = None  # of JSON, the list that stands one item to a line
    json: bool = False
    words: Sequence[str] = mutate.WORDS  # that are put in
    outside: bool = True  # whether links lead out of the project; a cache is the user's own


TARGETS = (
    Target("spec", ["specs/*.yaml"], _GENERATOR),
    Target("template", ["templates/*", "templates/*/*"], _GENERATOR, words=fuzz_corpus.SNIPPETS),
    Target("manifest", ["generated/*/manifest.txt"], _GENERATOR),
    Target("generated", ["generated/*/*", "generated/*"], _GENERATOR),
    Target("table", ["generated/*/table.json"], _READERS, "kernels", json=True),
    Target("tuned", ["tuned/*/*.json"], _TUNED, json=True),
    Target(
        "record",
        ["report.json", "benchmarks/results/*/*.json", "benchmarks/results/stale.json", "pyproject.toml"],
        _RECORDS,
        "kernels",
        json=True,
    ),
    Target("library", ["cache/libraries/*/*/library.json"], _CACHE, json=True, outside=False),
    Target(
        "object", ["cache/objects/*/report.json", "cache/digests/*.json"], _CACHE, json=True, outside=False
    ),
    Target("cache", ["cache/*", "cache/*/*", "cache/*/*/*", "cache/libraries/*/*/*"], _CACHE, outside=False),
)


@dataclass(frozen=True)
class Case:
    """What was done to the project, in words, and what is run."""

    target: str
    what: str
    command: Command


def draw(chance: random.Random, project: Path) -> Case:
    """Spoils the project, and says which command is to meet it."""
    return chance.choice((*[_spoil] * 6, _shapes, _words, _links, _hostile))(chance, project)


def _spoil(chance: random.Random, project: Path) -> Case:
    target = chance.choice(TARGETS)
    done = []
    for _ in range(chance.choice((1, 1, 1, 2))):
        path = chance.choice(sorted(each for glob in target.paths for each in project.glob(glob)))
        try:
            outside = project.parent / fuzz_project.OUTSIDE if target.outside else None
            what = _spoil_file(chance, path, target, outside)
        except OSError as error:  # it was reached through a link that was spoilt before
            what = error.strerror or "gone"
        done.append(f"{path.relative_to(project)}: {what}")
    return Case(target.name, "; ".join(done), chance.choice(target.commands))


# What commands write: files and folders, some of which are not there.
_WRITTEN: tuple[tuple[str, Sequence[Command]], ...] = (
    ("generated", _GENERATOR),
    ("generated/.tilewright.lock", (["generate"], ["generate", "--force"])),
    ("generated/hopper", _GENERATOR),
    ("generated/hopper/manifest.txt", (["generate", "--force"], ["generate"])),
    ("specs/schema", (["schema"], ["schema", "gemm"])),
    ("specs/schema/gemm.schema.json", (["schema"], ["schema", "gemm"])),
    ("tuned", _TUNED),
    ("tuned/nvidia_h200", _TUNED),
    ("tuned/nvidia_h200/gemm.json", _TUNED),
    ("tuned/nvidia_h200/gemm.json.lock", _TUNED),
    ("merged", _TUNED),
    ("report.html", _TUNED),
    ("report.svg", _TUNED),
    ("report.md", _TUNED),
    ("docs", (["status", "--write"],)),
    ("benchmarks", _RECORDS),
    ("benchmarks/results", _RECORDS),
    ("benchmarks/results/compile", _RECORDS),
    ("benchmarks/results/compile/hopper.json", _RECORDS),
)


def _links(chance: random.Random, project: Path) -> Case:
    """A link that leads out of the project, where a command writes."""
    name, commands = chance.choice(_WRITTEN)
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    what = mutate.link(chance, path, project.parent / fuzz_project.OUTSIDE)
    command = chance.choice(commands)
    if command[0] == "generate":  # so that there is something to write
        (project / "templates/table.cc.j2").write_text("// other\n", encoding="utf-8")
    return Case("link", f"{name}: {what}", command)


def _hostile(chance: random.Random, project: Path) -> Case:
    """A spec or a template of the corpus."""
    if chance.random() < 0.5:
        path = (
            project
            / "templates"
            / chance.choice(("gemm/kernel.cu.j2", "table.cc.j2", "quantize/kernel.cu.j2"))
        )
        at = chance.randrange(len(fuzz_corpus.REFUSED_TEMPLATES))
        path.write_text(fuzz_corpus.REFUSED_TEMPLATES[at], encoding="utf-8")
        return Case("template", f"{path.name}: number {at} of the corpus", chance.choice(_GENERATOR))
    name = chance.choice(sorted(fuzz_corpus.SPECS))
    number = chance.choice((10, 1_000, 20_000, 99_000, 300_000, 1_000_000))
    text = fuzz_corpus.SPECS[name](number)[:8_000_000]
    if chance.random() < 0.2:
        text = mutate.text(chance, text)
    (project / "specs/hopper.yaml").write_text(text, encoding="utf-8", errors="replace")
    return Case("spec", f"{number} {name}", chance.choice(_GENERATOR))


_LARGEST = 64 << 20  # bytes of a file that is changed


def _spoil_file(chance: random.Random, path: Path, target: Target, outside: Path | None = None) -> str:
    kind = chance.random()
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}-moved"))
        return mutate.place(chance, path, outside)
    # What was spoilt before may be a link to a file without end, or a file of 5 GB: it is not read here.
    if kind < 0.08 or path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
        return mutate.place(chance, path, outside)
    data = path.read_bytes()
    if kind < 0.15:
        path.write_bytes(mutate.binary(chance, data))
        return "bytes"
    if target.json and path.suffix == ".json" and kind < 0.8:
        try:
            value = mutate.value(chance, json.loads(data))
        except (ValueError, RecursionError):  # spoilt before
            return "as it was"
        path.write_text(mutate.laid_out(chance, value, target.rows), encoding="utf-8")
        return "values"
    text = mutate.text(chance, data.decode(errors="replace"), target.words)
    path.write_text(text, encoding="utf-8", errors="replace")
    return "text"


def _shapes(chance: random.Random, project: Path) -> Case:
    """Problems, sizes and combinations that nobody can have meant."""
    kind = chance.randrange(4)
    if kind == 0:
        path = project / "sizes.yaml"
        what = _spoil_file(chance, path, Target("sizes", [], ()))
        return Case("shapes", f"sizes.yaml: {what}", [*_TUNE, "--sizes", "sizes.yaml"])
    if kind == 1:
        size = mutate.text(chance, chance.choice(("16x4096x4096", "64x4096", "1x1x1")))
        return Case("shapes", "a size", [*_TUNE, f"--size={size}"])
    if kind == 2:
        words = _spoilt(chance, list(chance.choice(_PROBLEMS)))
        return Case("shapes", "a problem", ["explain", "--problem", *words])
    terms = [
        "gemm",
        "arch=sm_90a",
        "a=bf16",
        "b=bf16",
        "d=bf16",
        "tile=128x128x64",
        "cluster=2x1",
        "stages=4",
    ]
    return Case("shapes", "a combination", ["explain", *_spoilt(chance, terms)])


def _words(chance: random.Random, project: Path) -> Case:
    """A command line of known words and others."""
    known = chance.choice((_GENERATOR, _READERS, _TUNED, _RECORDS, _CACHE))
    words = list(chance.choice(known)) if chance.random() < 0.6 else [chance.choice(list(COMMANDS))]
    return Case("command line", "words", _spoilt(chance, words))


_OPTIONS = (
    "--json", "--root", "--out", "--filter", "--dry-run", "--diff", "--force", "--device",
    "--family", "--sizes",
    "-s", "--formats", "--layout", "--x", "--out-dtype", "--fast-accum", "--merge", "--report",
    "--cache", "--prune",
    "--older-than", "--jobs", "-j", "--launcher", "--nvcc", "--cutlass", "--strict", "--record",
    "--check",
    "--release", "--problem", "--spec", "--print", "--long", "-l", "--built", "--not-built",
    "--tuned", "--verified",
    "--again", "--only-new", "--keep", "--gpus", "--help", "-h", "--version", "-q", "-v", "--results", "--a",
    "--b", "--kernel",
    "specs", "generated", "specs/hopper.yaml", "hopper", "cache", "tuned", "report.json",
    "sizes.yaml", "compare",
    "*", "arch=sm_90a", "gemm", "nowhere", "3", "-3",
)  # fmt: skip


def _spoilt(chance: random.Random, words: Command) -> Command:
    """With one to four words changed, put in or gone; a path leads out of the folder in none of them."""
    changes: tuple[Callable[[], None], ...] = (
        lambda: words.insert(chance.randrange(len(words) + 1), chance.choice(_OPTIONS)),
        lambda: words.insert(chance.randrange(len(words) + 1), chance.choice(_OPTIONS)),
        lambda: words.append(chance.choice(mutate.WORDS)),
        lambda: words.__setitem__(at := chance.randrange(len(words)), mutate.text(chance, words[at])),
        lambda: words.__delitem__(chance.randrange(len(words))) if len(words) > 1 else None,
    )
    for _ in range(chance.choice((1, 2, 2, 4))):
        chance.choice(changes)()
    return [word.replace("\0", "") for word in words if harmless(word)]


def harmless(word: str) -> bool:
    """Whether a word of a command line leads nowhere else, and starts neither Ray nor compilers."""
    value = word.partition("=")[2] if word.startswith("-") else word
    return not value.startswith(("/", "~/")) and ".." not in word and "ray" not in word and word != "--build"
