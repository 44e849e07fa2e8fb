"""Tuning as tasks of Ray, on a cluster of local workers; skipped where Ray is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilewright[ray]')")

import hanging  # noqa: E402
import host_tuning  # noqa: E402
from host_tuning import PROBLEMS, HostSite  # noqa: E402

from tilewright.context import Context  # noqa: E402
from tilewright.device import H200  # noqa: E402
from tilewright.ops.gemm.family import FAMILY  # noqa: E402
from tilewright.ops.gemm.problem import Problem  # noqa: E402
from tilewright.tuning import files, ray_engine, tuning  # noqa: E402
from tilewright.tuning.engine import Answer, Ended  # noqa: E402


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """Where processes that hang leave a mark."""
    folder = tmp_path / "hung"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(hung: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Of two workers, which find this folder, and of a GPU that no task of these asks for."""
    monkeypatch.setenv(hanging.FOLDER, str(hung))
    search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, search)))
    ray.init(num_cpus=2, num_gpus=1, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@pytest.fixture
def book(host: Context, tmp_path: Path) -> tuning.Book:
    return tuning.Book(tmp_path / "gemm.json", host_tuning.header(host.registry), FAMILY)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("how", "why", "problems"),
    [
        ("lost", "an illegal memory access", PROBLEMS[:6]),
        ("killed", "", PROBLEMS[:2]),
        ("hangs", "nothing was heard for 3 s", PROBLEMS[:1]),
    ],
)
def test_shards_of_problems_on_several_workers(
    book: tuning.Book,
    host_generated: Path,
    host_library: Path,
    hung: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    how: str,
    why: str,
    problems: list[Problem],
) -> None:
    """A process that dies or hangs costs its shard nothing but what was under way; that goes on in another,
    without the tactic at fault."""
    monkeypatch.setattr(ray_engine.RayEngine, "shard", 3)
    site = HostSite(host_generated, host_library, ends=(("host_bf16_tn", how),))
    engine = ray_engine.connect(None, gpus=0, patience=3, now=hanging.Clock(hung))
    results = list(tuning.tune_problems(problems, engine, site, book=book))
    engine.close()
    assert {one.problem for one in results} == set(problems)
    for result in results:
        assert result.tactic is not None
        assert result.tactic.kernel == "host_bf16_tn_streamk"
        assert [str(one.tactic) for one in result.failures] == ["host_bf16_tn"]
        assert why in str(result.failures[0].failure)
    assert {row["m"] for section in files.read(book.path).sections for row in section.rows} == {
        one.m for one in problems
    }


@pytest.mark.usefixtures("cluster")
def test_the_engine_that_was_asked_for_a_gpu_tunes(
    book: tuning.Book, host_generated: Path, host_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe)
    engine = ray_engine.connect(None, gpus=0)
    assert ray_engine.gpu(engine) == (H200, "580.1")
    site = HostSite(host_generated, host_library)
    results = list(tuning.tune_problems(PROBLEMS[:2], engine, site, book=book))
    engine.close()
    assert {one.problem for one in results} == set(PROBLEMS[:2])


@pytest.mark.usefixtures("cluster")
def test_no_gpu_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ray_engine.connect(None, gpus=0)
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe_nothing)
    with pytest.raises(ray_engine.RayMissingError, match="no GPU of the cluster answers"):
        ray_engine.gpu(engine)
    monkeypatch.setattr(ray_engine, "_describe", host_tuning.describe)
    waiting = ray_engine.connect(None, gpus=2)  # more than there are
    with monkeypatch.context() as impatient:
        impatient.setattr(ray_engine, "_GPU_SECONDS", 1)
        with pytest.raises(ray_engine.RayMissingError, match="free for 1 s"):
            ray_engine.gpu(waiting)
    assert list(waiting.events()) == []
    assert ray_engine.gpu(engine) == (H200, "580.1")


def test_a_task_may_wait_for_a_place(cluster: None) -> None:
    """Patience is with what is at work: it passes each time that a task ends, while the others wait."""
    ended: list[Ended] = []
    engine = ray_engine.connect(None, gpus=1, cpus=0, patience=3, now=lambda: 10.0 * len(ended))
    for number in range(3):
        engine.submit(host_tuning.answer, number)
    answers = []
    for event in engine.events():
        if isinstance(event, Answer):
            answers.append(event)
        elif isinstance(event, Ended):
            ended.append(event)
    assert sorted(answers) == [Answer(number, number) for number in range(3)]
    assert [event.failure for event in ended] == [None] * 3
