"""Which tactics a product can choose: one selection for every value of its extent, in several processes.

Selection is a function of the problem, the GPU, the tables and the tuned files. So the tactics that it gives
for all values of an extent are all that a call can get, and their kernels are all that has to be built.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.context import Context
from tilewright.errors import TilewrightError
from tilewright.libraries.registry import Registry
from tilewright.models.product import Product
from tilewright.selection.choice import choose
from tilewright.selection.families import family_of
from tilewright.selection.weighing import Candidate

CHUNK = 2048  # values that a process chooses for at a time


class Setting(NamedTuple):
    """The circumstances in which tactics are chosen."""

    folders: tuple[Path, ...]  # of the tables, the first counts most
    device: DeviceProperties
    batch_invariant: bool
    at_once: bool = True  # whether many values may be asked about together


class Chosen(NamedTuple):
    """The tactic of a range of values, which ends before the next range begins."""

    first: int
    tactic: str
    source: str  # tuned, neighbour, model, default


class Closure(NamedTuple):
    """The choices for all values of a product's extent; without any, the reason why no kernel computes it."""

    product: Product
    choices: tuple[Chosen, ...]
    refusal: str = ""


def close(
    products: Sequence[Product],
    setting: Setting,
    *,
    jobs: int,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Closure]:
    """Chooses for every value of every product. `jobs`: processes; 1 starts none."""
    work = [(number, part) for number, product in enumerate(products) for part in _parts(product.values)]
    answers: dict[int, list[tuple[range, list[Chosen] | str]]] = {}
    done = dict.fromkeys(range(len(products)), 0)
    for (number, part), answer in zip(work, _answers(products, work, setting, jobs), strict=True):
        answers.setdefault(number, []).append((part, answer))
        done[number] += len(part)
        if done[number] == len(products[number].values):
            progress(f"{products[number].layer}: chose for {done[number]:,} values")
    return [_closure(product, answers.get(number, [])) for number, product in enumerate(products)]


def choices(
    context: Context,
    product: Product,
    values: Sequence[int],
    device: DeviceProperties,
    *,
    at_once: bool = True,
) -> list[Chosen]:
    """The choices for some values, in ranges. `at_once`: the model is asked about many values together, if
    the family can (`Family.sweep`). Raises what a selection raises, for the first value that no kernel
    computes."""
    family = family_of(product.family)
    records, tuned = context.registry.route(family.name, device), context.tuned(family, device)
    largest = product.problem(values[-1])
    firsts: Mapping[int, Candidate] = {}
    if at_once and product.extent == family.neighbour:
        fitting = family.fitting(records, largest)
        firsts = family.sweep(fitting, largest, values, device, batch_invariant=context.batch_invariant)
    ranges: list[Chosen] = []
    for value in values:
        choice = choose(
            family, context.registry, records, product.problem(value), device,
            tuned=tuned, batch_invariant=context.batch_invariant, first=firsts.get(value),
        )  # fmt: skip
        chosen = Chosen(value, str(choice.tactic), choice.source)
        if not ranges or chosen[1:] != ranges[-1][1:]:
            ranges.append(chosen)
    return ranges


def _parts(values: range) -> Iterator[range]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def _answers(
    products: Sequence[Product], work: Sequence[tuple[int, range]], setting: Setting, jobs: int
) -> Iterator[list[Chosen] | str]:
    """The answers to all parts, in order."""
    parts = [(products[number], part) for number, part in work]
    if jobs == 1:
        _start(setting)
        yield from map(_answer, parts)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork would copy the locks of other threads
    with ProcessPoolExecutor(jobs, mp_context=fresh, initializer=_start, initargs=(setting,)) as pool:
        yield from pool.map(_answer, parts)


class _Process:
    context: Context
    setting: Setting


def _start(setting: Setting) -> None:
    """Prepares a process. What happens to be built here must not change a choice."""
    os.environ["TILEWRIGHT_JIT"] = "1"
    registry = Registry(setting.folders)
    _Process.context = Context(registry, batch_invariant=setting.batch_invariant)
    _Process.setting = setting


def _answer(part: tuple[Product, range]) -> list[Chosen] | str:
    product, values = part
    try:
        setting = _Process.setting
        return choices(_Process.context, product, values, setting.device, at_once=setting.at_once)
    except TilewrightError as error:
        return error.message


def _closure(product: Product, answers: Sequence[tuple[range, list[Chosen] | str]]) -> Closure:
    merged: list[Chosen] = []
    for _, answer in answers:
        if isinstance(answer, str):
            return Closure(product, (), answer)
        repeated = merged and answer[0][1:] == merged[-1][1:]
        merged += answer[1:] if repeated else answer
    return Closure(product, tuple(merged))
