"""Processes of this machine that run shards: what comes of answers, errors, deaths and silence."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hanging
import pytest

from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError, GpuLostError, StoreError
from tilewright.tools.sharding.engine import Answer, Ended, Local

Made = Callable[..., Local]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.setenv(hanging.FOLDER, str(tmp_path))
    engines: list[Local] = []

    def make(places: int = 1, patience: float = 1e9) -> Local:
        engines.append(Local(range(places), patience, hanging.Clock(tmp_path)))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def shard(what: Any, place: int, say: Any) -> Iterator[Any]:
    say(f"begun {what}")
    if what == "argument":
        raise ArgumentError("--size", "is wrong", hint="Mend it.")
    if what == "strange":
        raise _StrangeError(1, 2)
    if what == "lost":
        yield os.getpid()
        raise GpuLostError("an illegal memory access")
    if what == "dies":
        os._exit(7)
    if what == "hangs":
        hanging.hang()
    yield os.getpid()
    yield place


class _StrangeError(Exception):
    """Cannot be made of its args."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


def events(engine: Local) -> list[Answer | Ended]:
    return [event for event in engine.events() if event is not None]


def test_answers_come_as_they_are_given(made: Made) -> None:
    engine = made()
    for what in ("a", "b"):
        engine.submit(shard, what)
    actual = events(engine)
    pid = actual[0].value if isinstance(actual[0], Answer) else 0
    assert pid != os.getpid()
    assert actual == [
        Answer("a", pid), Answer("a", 0), Ended("a"), Answer("b", pid), Answer("b", 0), Ended("b"),
    ]  # fmt: skip


def test_each_place_has_a_process(made: Made) -> None:
    engine = made(2)
    engine.submit(shard, "hangs")
    engine.submit(shard, "a")
    values = []
    for event in engine.events():
        if isinstance(event, Answer):
            values.append(event.value)
        if isinstance(event, Ended):
            break
    assert values[1] in (0, 1)


@pytest.mark.parametrize(
    ("what", "why"),
    [("dies", "exit code 7"), ("lost", "an illegal memory access"), ("hangs", "process was silent for 3 s")],
)
def test_what_ends_a_process_ends_its_shard_alone(made: Made, what: str, why: str) -> None:
    engine = made(patience=3.0)
    engine.submit(shard, what)
    engine.submit(shard, "after")
    *first, ended, answer, place, end = events(engine)
    assert isinstance(ended, Ended)
    assert ended.shard == what
    assert why in (ended.failure or "")
    assert [event.shard for event in first] == (["lost"] if what == "lost" else [])
    assert ended.under_way == (None if what == "lost" else f"begun {what}")
    assert isinstance(answer, Answer)
    assert (place, end) == (Answer("after", 0), Ended("after"))
    if first:
        assert isinstance(first[0], Answer)
        assert answer.value != first[0].value, "another process"


def test_what_a_function_raises_is_raised(made: Made) -> None:
    engine = made()
    engine.submit(shard, "argument")
    with pytest.raises(ArgumentError, match="--size: is wrong") as caught:
        events(engine)
    assert (caught.value.argument, caught.value.hint) == ("--size", "Mend it.")
    engine = made()
    engine.submit(shard, "strange")
    with pytest.raises(RuntimeError, match="_StrangeError: 1 and 2"):
        events(engine)


def test_what_is_submitted_meanwhile_runs_too(made: Made) -> None:
    engine = made()
    engine.submit(shard, "a")
    seen = []
    for event in engine.events():
        if isinstance(event, Ended):
            seen.append(event.shard)
            if len(seen) < 3:
                engine.submit(shard, f"after {event.shard}")
    assert seen == ["a", "after a", "after after a"]


def test_errors_reach_another_process_whole() -> None:
    lost = GpuLostError("gone", hint="why").of(Tactic("x", splits=2))
    for error in (ArgumentError("a", "b"), StoreError("c", hint="d"), lost):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (str(again), again.__dict__) == (str(error), error.__dict__)
