"""Tuning as tasks of Ray, on a cluster of two nodes; skipped where Ray is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilewright[ray]')")

import hanging
import host_tuning
import ray_nodes
from host_tuning import PROBLEMS, HostSite

from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.selection import tuned_files
from tilewright.tools.sharding import ray_engine
from tilewright.tools.sharding.engine import Answer, Ended
from tilewright.tools.tuning import tuning


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where processes that hang leave a mark."""
    return tmp_path_factory.mktemp("hung")


@pytest.fixture(scope="module")
def cluster(hung: Path) -> Iterator[str]:
    """The address of two nodes, of which one has a GPU as far as Ray knows."""
    with ray_nodes.two_nodes(Path(__file__).parents[1], gpus=1, **{hanging.FOLDER: str(hung)}) as address:
        yield address


@pytest.fixture
def book(host: Context, tmp_path: Path) -> tuning.Book:
    return tuning.Book(tmp_path / "gemm.json", host_tuning.header(host.registry), FAMILY)


@pytest.mark.parametrize(
    ("how", "why", "problems"),
    [
        ("lost", "an illegal memory access", PROBLEMS[:4]),
        ("killed", "", PROBLEMS[:2]),
        ("hangs", "its process was silent for 3 s", PROBLEMS[:1]),
    ],
)
def test_shards_of_problems_on_two_nodes(
    cluster: str,
    book: tuning.Book,
    host: Context,
    host_library: Path,
    hung: Path,
    *,
    how: str,
    why: str,
    problems: list[Problem],
) -> None:
    """A process that dies or hangs costs its shard nothing but what was under way; that goes on in another,
    without the tactic at fault."""
    site = HostSite(host.registry.folders[0], host_library, ends=(("host_bf16_tn", how),))
    # A process that hangs has the only GPU: while it lives, and with it the clock runs, no other one begins.
    engine = ray_engine.connect(cluster, gpus=how == "hangs", patience=3, now=hanging.Clock(hung))
    engine.shard = 2
    results = list(tuning.tune_problems(problems, engine, site, book=book))
    engine.close()
    assert {result.problem for result in results} == set(problems)
    for result in results:
        assert result.tactic is not None
        assert result.tactic.kernel == "host_bf16_tn_streamk"
        assert [str(failure.tactic) for failure in result.failures] == ["host_bf16_tn"]
        assert why in str(result.failures[0].failure)
    assert {row["m"] for section in tuned_files.read(book.path).sections for row in section.rows} == {
        problem.m for problem in problems
    }


def test_the_engine_that_was_asked_for_a_gpu_tunes(
    cluster: str, book: tuning.Book, host_generated: Path, host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe)
    engine = ray_engine.connect(cluster, gpus=0)
    assert ray_engine.gpu(engine) == (H200, "580.1")
    site = HostSite(host_generated, host_library)
    results = list(tuning.tune_problems(PROBLEMS[:2], engine, site, book=book))
    engine.close()
    assert {result.problem for result in results} == set(PROBLEMS[:2])


def test_no_gpu_that_answers(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ray_engine.connect(cluster, gpus=0)
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe_nothing)
    with pytest.raises(ray_engine.RayMissingError, match="no GPU of the cluster answers"):
        ray_engine.gpu(engine)
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe)
    waiting = ray_engine.connect(cluster, gpus=2)  # more than there are
    with monkeypatch.context() as impatient:
        impatient.setattr(ray_engine, "_GPU_SECONDS", 1)
        with pytest.raises(ray_engine.RayMissingError, match="free for 1 s"):
            ray_engine.gpu(waiting)
    assert list(waiting.events()) == []
    assert ray_engine.gpu(engine) == (H200, "580.1")


def test_a_task_may_wait_for_a_place(cluster: str) -> None:
    """Patience is with what is at work: it passes each time that a task ends while the others wait."""
    ended: list[Ended] = []
    clock = 0.0
    engine = ray_engine.connect(cluster, gpus=1, cpus=0, patience=3, now=lambda: clock)
    for number in range(3):
        engine.submit(host_tuning.answer, number)
    answers = []
    for event in engine.events():
        if isinstance(event, Answer):
            answers.append(event)
        elif isinstance(event, Ended):
            ended.append(event)
            if all(task.heard is None for task in engine._under_way.values()):  # the next may have begun
                clock += 10
    assert sorted(answers) == [Answer(number, number) for number in range(3)]
    assert [event.failure for event in ended] == [None] * 3
