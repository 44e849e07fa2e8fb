"""What the engine over Ray decides, with a Ray whose tasks say what a test has written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from tilewright.tools.sharding.engine import Answer, Ended
from tilewright.tools.sharding.ray_engine import RayEngine

Message = tuple[str, Any]


class Task:
    """A generator of messages. One is ready while there are any, and at its end."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = [*messages]
        self.hangs = False

    def __next__(self) -> Message:
        if not self.messages:
            raise StopIteration
        return self.messages.pop(0)

    @property
    def ready(self) -> bool:
        return bool(self.messages) or not self.hangs


class Ray:
    """The part of Ray that the engine uses. A shard is the messages of its task."""

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=LookupError)

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.cancelled: list[Task] = []

    def remote(self, **_: Any) -> Any:
        return lambda _: SimpleNamespace(remote=self.start)

    def start(self, _: Any, messages: Sequence[Message]) -> Task:
        self.tasks.append(Task(messages))
        return self.tasks[-1]

    def wait(self, tasks: list[Task], num_returns: int, timeout: float) -> tuple[list[Task], list[Task]]:
        ready = [task for task in tasks if task.ready][:num_returns]
        return ready, [task for task in tasks if task not in ready]

    def get(self, message: Message) -> Message:
        return message

    def cancel(self, task: Task, force: bool) -> None:
        self.cancelled.append(task)


def shard(name: str, answers: int) -> tuple[Message, ...]:
    return (("begun", None), *(("answer", f"{name}{number}") for number in range(answers)))


def told(events: Iterator[Any]) -> list[Any]:
    return [event for event in events if event is not None]


def test_each_task_has_its_turn() -> None:
    engine = RayEngine(Ray())
    for name in "ab":
        engine.submit(print, shard(name, 3))
    answers = [event.value for event in told(engine.events()) if isinstance(event, Answer)]
    assert answers == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_task_that_spoke_while_nobody_listened_is_not_lost() -> None:
    """Who takes the events may be away for longer than a task may be silent."""
    clock = [0.0]
    ray = Ray()
    engine = RayEngine(ray, patience=3, now=lambda: clock[0])
    for name in "ab":
        engine.submit(print, shard(name, 1))
    events = engine.events()
    while any(len(task.messages) == 2 for task in ray.tasks):  # until both have begun
        next(events)
    clock[0] = 100.0
    rest = told(events)
    assert [event.value for event in rest if isinstance(event, Answer)] == ["a0", "b0"]
    assert [event.failure for event in rest if isinstance(event, Ended)] == [None, None]
    assert ray.cancelled == []


def test_a_task_that_is_silent_for_too_long_is_ended() -> None:
    clock = [0.0]
    ray = Ray()
    engine = RayEngine(ray, patience=3, now=lambda: clock[0])
    engine.submit(print, (("begun", "a tactic"),))
    ray.tasks[0].hangs = True
    events = engine.events()
    while ray.tasks[0].messages:
        next(events)
    clock[0] = 3.0
    assert next(events) is None
    clock[0] = 3.5
    (ended,) = told(events)
    assert (ended.failure, ended.under_way) == ("its process was silent for 3 s", "a tactic")
    assert ray.cancelled == ray.tasks
