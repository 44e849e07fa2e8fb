"""Tuning as tasks of Ray, on a cluster of local workers; skipped where Ray is not installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")
ray = pytest.importorskip("ray", reason="Ray is not installed (pip install 'tilewright[ray]')")

import host_tuning  # noqa: E402
from host_tuning import PROBLEMS, HostSite  # noqa: E402

from tilewright.context import Context  # noqa: E402
from tilewright.ops.gemm.family import FAMILY  # noqa: E402
from tilewright.tuning import ray_engine, tuning  # noqa: E402


def test_shards_of_problems_on_several_workers(
    host: Context, host_generated: Path, host_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies costs its shard nothing but what was under way; that goes on in another."""
    search = [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, search)))
    monkeypatch.setattr(ray_engine.RayEngine, "shard", 3)
    book = tuning.Book(tmp_path / "gemm.json", host_tuning.header(host.registry), FAMILY, host.registry)
    site = HostSite(host_generated, host_library, ends=(("host_bf16_tn", "lost"),))
    problems = PROBLEMS[:6]
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        engine = ray_engine.connect(None, gpus=0)
        results = list(tuning.tune_problems(problems, engine, site, book=book))
        engine.close()
    finally:
        ray.shutdown()
    assert {one.problem for one in results} == set(problems)
    for result in results:
        assert result.tactic is not None
        assert result.tactic.kernel == "host_bf16_tn_streamk"
        assert [str(one.tactic) for one in result.failures] == ["host_bf16_tn"]
    assert book.known(problems) == set(problems)
