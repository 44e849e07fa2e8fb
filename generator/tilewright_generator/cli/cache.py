"""`tilewright cache`: how large the build cache is, and what of it can go."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from tilewright_generator.words import counted

_DAY = 24 * 3600.0
_MIB = 1 << 20


@click.command("cache")
@click.option("--prune", is_flag=True, help="Remove what no library in force needs.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Only what was made so many days ago.",
)
@click.option("--dry-run", is_flag=True, help="With --prune: say what would be removed.")
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False), help="Default: $TILEWRIGHT_CACHE.")
def command(*, prune: bool, older_than: float, dry_run: bool, cache: Path | None) -> None:
    """Say how large the build cache is, and what of it no library in force needs any more: objects and
    libraries of other sources, headers or compilers, what was set aside as damaged, and old logs.

    Only what tilewright has put there is removed, and only from a folder that its CACHEDIR.TAG marks as a
    build cache; exits 2 where the folder is another.
    """
    from tilewright import paths  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.build import eviction  # noqa: PLC0415
    from tilewright.build.store import Store  # noqa: PLC0415

    store = Store(cache)
    sizes = store.sizes()
    click.echo(f"{store.root}")
    for name, size in (*sizes.items(), ("total", sum(sizes.values()))):
        click.echo(f"  {name:10}  {size / _MIB:10.1f} MiB")
    found = eviction.debris(store, paths.include_dir(), older_than * _DAY)
    total = sum(each.bytes for each in found) / _MIB
    if prune and dry_run:
        for each in found:
            click.echo(f"  {each.bytes / _MIB:10.1f} MiB  {each.path.relative_to(store.root)}: {each.why}")
    elif not prune:
        for why, count in Counter(each.why for each in found).items():
            click.echo(f"  not needed: {count} x {why}")
    if prune and not dry_run:
        eviction.remove(store, found)
    said = "removed" if prune and not dry_run else "can be removed (--prune)"
    click.echo(f"{counted(len(found), 'item')} of {total:.1f} MiB {said}")
