"""Compile jobs as tasks of Ray, on a cluster of local workers; skipped where Ray is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_modules import PLAIN, Mini

from tilewright.build.building import build
from tilewright.build.sharded import Compiled, compile_shards
from tilewright.build.store import Store
from tilewright.build.toolchain import Toolchain
from tilewright.errors import GpuLostError, StoreError
from tilewright.tuning import ray_engine
from tilewright.tuning.engine import Answer, Ended

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilewright[ray]')")


@pytest.fixture(scope="module")
def engine() -> Iterator[ray_engine.RayEngine]:
    """A cluster of two workers, which find this module."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), before]))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        engine = ray_engine.connect(None, gpus=0)
        yield engine
        engine.close()
    finally:
        ray.shutdown()
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def test_several_workers_compile_into_one_cache(
    engine: ray_engine.RayEngine, mini: Mini, store: Store, toolchain: Toolchain
) -> None:
    for number, name in enumerate(("one", "two", "three"), 1):
        mini.add(name, number=number)
    table = mini.add("broken", PLAIN + "nonsense", number=4).table()
    found = list(compile_shards(engine, [table], toolchain=toolchain, store=store, kernels=1))
    assert sorted(found) == [
        Compiled((name,), {name: "failed" if name == "broken" else "built"})
        for name in ("broken", "one", "three", "two")
    ]
    assert list(compile_shards(engine, [table], {"one"}, toolchain=toolchain, store=store)) == []
    report = build([table], toolchain=toolchain, store=store)
    assert {unit.name: unit.status for unit in report.units} == {
        "one": "cached", "two": "cached", "three": "cached", "broken": "failed",
    }  # fmt: skip
    (library,) = report.libraries
    assert sorted(library.kernels) == ["one", "three", "two"]


def who(shard: int, place: int, say: Any) -> Iterator[int]:
    for _ in range(shard):
        yield os.getpid()


def ends(shard: str, place: int, say: Any) -> Iterator[str]:
    yield shard
    if shard == "killed":
        os.kill(os.getpid(), 9)
    elif shard == "lost":
        raise GpuLostError("an illegal memory access")
    raise StoreError("the disk is full")


def test_each_shard_has_a_process_of_its_own(engine: ray_engine.RayEngine) -> None:
    for _ in range(3):
        engine.submit(who, 2)
    answers = [event.value for event in engine.events() if isinstance(event, Answer)]
    assert len(answers) == 6
    assert len(set(answers)) == 3
    assert os.getpid() not in answers


@pytest.mark.parametrize(("how", "why"), [("killed", ""), ("lost", "an illegal memory access")])
def test_a_process_that_ends_is_told(engine: ray_engine.RayEngine, how: str, why: str) -> None:
    engine.submit(ends, how)
    *answers, ended = [event for event in engine.events() if event is not None]
    assert answers == [Answer(how, how)]
    assert isinstance(ended, Ended)
    assert ended.failure
    assert why in ended.failure


def test_what_a_task_raises_is_raised(engine: ray_engine.RayEngine) -> None:
    engine.submit(ends, "full")
    with pytest.raises(StoreError, match="the disk is full"):
        list(engine.events())
