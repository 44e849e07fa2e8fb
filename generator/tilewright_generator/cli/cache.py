"""`tilewright cache`: how large the build cache is, and what of it can go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright_generator.cli import answers, common
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright_generator.eviction import Debris

_DAY = 24 * 3600.0
_MIB = 1 << 20


@click.command("cache")
@click.option("--prune", is_flag=True, help="Remove files that no current library needs.")
@click.option(
    "--older-than",
    type=common.RealRange(min=0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Only files that are at least this old.",
)
@click.option("--dry-run", is_flag=True, help="With --prune: say what would be removed.")
@common.cache_option
@answers.json_option
def command(*, prune: bool, older_than: float, dry_run: bool, cache: Path | None, as_json: bool) -> None:
    """Say how large the build cache is, and which files no current library needs: objects and libraries of
    other sources, headers or compilers, entries that were set aside as damaged, and old logs.

    Only files that tilewright wrote are removed, and only from a folder that its CACHEDIR.TAG marks as a
    build cache; exits 2 if the folder is not one.
    """
    from tilewright.base import paths  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.compile.store import Store  # noqa: PLC0415
    from tilewright_generator import eviction  # noqa: PLC0415

    store = Store(cache)
    sizes = store.sizes()
    debris = eviction.debris(store, paths.include_dir(), older_than * _DAY)
    removes = prune and not dry_run
    if removes:
        eviction.remove(store, debris)
    if as_json:
        entries = [entry._asdict() for entry in debris]
        answers.print_json({"cache": store.root, "bytes": sizes, "removed": removes, "not_needed": entries})
        return
    for line in _lines(store.root, sizes, debris, each_one=prune and dry_run, removed=removes):
        click.echo(line)


def _lines(
    root: Path, sizes: Mapping[str, int], debris: Sequence[Debris], *, each_one: bool, removed: bool
) -> Iterator[str]:
    yield str(root)
    for name, size in (*sizes.items(), ("total", sum(sizes.values()))):
        yield f"  {name:10}  {size / _MIB:10.1f} MiB"
    if each_one:
        for entry in debris:
            yield f"  {entry.bytes / _MIB:10.1f} MiB  {entry.path.relative_to(root)}: {entry.why}"
    elif not removed:
        for why, count in Counter(item.why for item in debris).items():
            yield f"  not needed: {count} x {why}"
    total = sum(item.bytes for item in debris) / _MIB
    text = "removed" if removed else "can be removed (--prune)"
    yield f"{counted(len(debris), 'item')} of {total:.1f} MiB {text}"
