"""Which clusters chosen at run time a kernel takes, and the share of work that an SM gets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.declarations.tactics import Tactic
from tilewright.selection.fitting import misfit_cluster
from tilewright.selection.persistent import share


@pytest.mark.parametrize(
    ("cluster", "fallback", "fits"),
    [
        ("2x1", "", True), ("4x2", "2x1", True), ("1x2", "", False), ("2x2", "1x1", False),
        ("2x2", "4x1", False), ("2x4", "2x2", True), ("4x1", "2x2", False),
    ],
)  # fmt: skip
def test_clusters_are_made_of_their_parts_along_both_sides(cluster: str, fallback: str, fits: bool) -> None:
    kernel = SimpleNamespace(config={"cluster": "dynamic"}, facts={"cluster_multiple": (2, 1)})
    tactic = Tactic("kernel", cluster=cluster, fallback=fallback)
    assert (misfit_cluster(tactic, kernel) is None) is fits


def test_whole_waves_leave_nothing_to_stream_k() -> None:
    by_tiles, by_units = (Tactic("kernel", decomposition=how) for how in ("data_parallel", "stream_k"))
    assert share(by_units, 264, 40, 132) == share(by_tiles, 264, 40, 132)
    assert share(by_units, 265, 40, 132) != share(by_tiles, 265, 40, 132)
