"""Compile jobs as tasks of Ray, on a cluster of two nodes; skipped where Ray is not installed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray_nodes
from small_modules import PLAIN, Mini

from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.errors import GpuLostError, StoreError
from tilewright.tools.sharding import ray_engine
from tilewright.tools.sharding.building import Compiled, compile_shards
from tilewright.tools.sharding.engine import Answer, Ended

ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilewright[ray]')")


@pytest.fixture(scope="module")
def engine() -> Iterator[ray_engine.RayEngine]:
    """Over two nodes."""
    with ray_nodes.two_nodes(Path(__file__).parent) as address:
        engine = ray_engine.connect(address, gpus=0)
        yield engine
        engine.close()


def meets(shard: str, place: int, say: Any) -> Iterator[str]:
    """Holds its core until as many shards as there are nodes are at work; answers with its node."""
    folder = Path(shard)
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < ray_nodes.NODES:
        time.sleep(0.01)
    yield ray.get_runtime_context().get_node_id()


def test_shards_run_on_both_nodes_at_once(engine: ray_engine.RayEngine, tmp_path: Path) -> None:
    for _ in range(ray_nodes.NODES):
        engine.submit(meets, str(tmp_path))
    nodes = {event.value for event in engine.events() if isinstance(event, Answer)}
    assert len(nodes) == ray_nodes.NODES


def test_two_nodes_compile_into_one_cache(
    engine: ray_engine.RayEngine, mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    for number, name in enumerate(("one", "two", "three"), 1):
        mini.add(name, number=number)
    table = mini.add("broken", PLAIN + "nonsense", number=4).table()
    actual = list(compile_shards(engine, [table], toolchain=toolchain, store=store, kernels=1))
    assert sorted(actual) == [
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
