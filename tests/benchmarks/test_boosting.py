"""Trees by gradient boosting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.selection.trees import Trees

ROOT = Path(__file__).parents[2]


@pytest.fixture
def boosting(monkeypatch: pytest.MonkeyPatch) -> Any:
    from benchmarks.fit import boosting  # noqa: PLC0415

    return boosting


def examples(boosting: Any, groups: int, seed: int) -> Any:
    """Two features decide together, a third says nothing; what a group has in common is far larger."""
    chance = np.random.default_rng(seed)
    features, of = chance.random((groups * 20, 3)), np.repeat(np.arange(groups), 20)
    expected = 0.1 * ((features[:, 0] > 0.3) ^ (features[:, 1] > 0.6))
    expected += chance.normal(0, 0.005, len(expected)) + chance.normal(0, 5, groups)[of]
    return boosting.Examples(features, expected, np.ones(len(expected)), of)


def test_what_decides_within_groups_is_learnt(boosting: Any) -> None:
    trees = boosting.learn(examples(boosting, 200, 0))
    features = examples(boosting, 50, 1).features
    actual = sum(boosting.answers(tree, features) for tree in trees)
    expected = 0.1 * ((features[:, 0] > 0.3) ^ (features[:, 1] > 0.6))
    far = np.abs(features[:, 0] - 0.3).clip(max=np.abs(features[:, 1] - 0.6)) > 0.03
    errors = (actual - actual.mean() - expected + expected.mean())[far]
    assert far.sum() > 500
    assert np.abs(errors).max() < 0.03
    assert np.abs(errors).mean() < 0.01


def test_a_tree_has_no_more_leaves_than_allowed_and_none_of_little_weight(boosting: Any) -> None:
    given = examples(boosting, 30, 0)
    for tree in boosting.learn(given, boosting.Size(trees=3, leaves=7)):
        leaves = [place for place, node in enumerate(tree) if not isinstance(node, boosting.Split)]
        assert 2 <= len(leaves) <= 7
        assert len(tree) == 2 * len(leaves) - 1
        reached = [int((boosting.answers(_named(tree), given.features) == place).sum()) for place in leaves]
        # A group's 20 examples weigh LEAST_WEIGHT together, and a tree sees a part of the groups.
        assert min(reached) >= 20
        assert sum(reached) == len(given.wanted)


def _named(tree: Any) -> Any:
    """The tree, whose leaves answer with their places."""
    return [node if hasattr(node, "most") else float(place) for place, node in enumerate(tree)]


def test_the_runtime_answers_alike(boosting: Any) -> None:
    given = examples(boosting, 60, 2)
    trees = boosting.learn(given, boosting.Size(trees=6))
    read = Trees("\n".join(boosting.text(tree, 1e-6) for tree in trees))
    expected = sum(boosting.answers(tree, given.features[:50]) for tree in trees)
    actual = np.array(read.answers(given.features[:50].tolist())) * 1e-6
    assert actual == pytest.approx(expected, abs=1e-5)
