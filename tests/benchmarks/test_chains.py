"""What the benchmark of chains makes of its times."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> Any:
    from benchmarks.compare import chains  # noqa: PLC0415

    return chains


def chain(chains: Any, name: str = "a, b") -> Any:
    """Two ops on three sets of operands; each call says which op and set it is."""
    from benchmarks.lib.chain_ops import Link  # noqa: PLC0415 (beside chains)

    links = [Link(op, [lambda op=op, i=i: f"{op}{i}" for i in range(3)]) for op in "ab"]
    return chains.Chain(name, "1x2x3", links, [])


def test_ops_follow_each_other_set_by_set(chains: Any) -> None:
    assert [call() for call in chain(chains).calls] == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_a_chain_is_timed_once_for_each_set_and_its_ops_by_themselves(
    chains: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = []

    class Graph:
        """An a takes 2 us, a b 3 us; after one another they take 1 us more."""

        def __init__(self, calls: list[Any]) -> None:
            self.names = [call() for call in calls]
            captured.append(self.names)

        def replay(self) -> None:
            pass

        def seconds(self) -> float:
            ops = [name[0] for name in self.names]
            mixed = len(set(ops)) > 1
            total = sum({"a": 2.0, "b": 3.0}[op] + (1.0 if mixed and op == "b" else 0.0) for op in ops)
            return total / len(ops) * 1e-6

    monkeypatch.setattr(chains, "Replays", Graph)
    timed_chain = chain(chains)
    timed_chain.links[0].alone = [lambda i=i: f"a{i}" for i in range(100)]
    whole, parts = chains.seconds(timed_chain, replays=3)
    assert whole == pytest.approx(6e-6)
    assert parts == pytest.approx([2e-6, 3e-6])
    assert len(captured[0]) >= chains.FEWEST_CALLS  # a graph of few calls is mostly its own launch
    assert captured[0][:6] == ["a0", "b0", "a1", "b1", "a2", "b2"]
    assert captured[1] == [f"a{i}" for i in range(100)]
    assert set(captured[2]) == {"b0", "b1", "b2"}
    row = chains.row_of(timed_chain, whole, parts)
    assert (row["sum_us"], row["chain_us"], row["lost_us"]) == (5.0, 6.0, 1.0)


def test_what_is_lost_beyond_what_is_allowed(chains: Any) -> None:
    rows = [
        chains.row_of(chain(chains, f"chain {lost}"), 5e-6 + lost * 1e-6, [2e-6, 3e-6]) for lost in (-2, 1, 4)
    ]
    assert [row["chain"] for row in chains.too_slow(rows, 1.0)] == ["chain 4"]
    assert len(chains.too_slow(rows, 0.5)) == 2
    assert "3 chains: 1 take more than 1 us" in chains.summary(rows, 1.0)
    assert "the most is 4.00 us (chain 4, 1x2x3), the median 1.00 us" in chains.summary(rows, 1.0)
    rows[0]["lost_us"] = float("nan")
    assert len(chains.too_slow(rows, 1.0)) == 2  # a time that is none is no pass


def test_the_page_says_what_was_not_measured(chains: Any) -> None:
    head = {
        "gpu": "NVIDIA H200",
        "driver": "1",
        "torch": "2",
        "command": "python -m benchmarks.compare.chains",
    }
    rows = [chains.row_of(chain(chains), 6e-6, [2e-6, 3e-6])]
    page = chains.page(head, rows, ["k is not built"], 1.0)
    assert "Not measured: k is not built." in page
    assert "| a, b | 1x2x3 | 2.0 + 3.0 | 5.0 | 6.0 | 1.0 | a, b |" in page


@pytest.mark.parametrize("quick", [True, False])
def test_every_kind_of_chain_is_listed_once(chains: Any, quick: bool) -> None:
    def maker_of(kind: str) -> Any:
        return lambda *words: (kind, *words)

    kinds = ("quantize_product", "quantize_gemm", "gemm_gemm", "mlp")
    maker = types.SimpleNamespace(**{kind: maker_of(kind) for kind in kinds})
    actual = [make() for make in chains.chains(maker, quick)]
    assert len(actual) == len(set(actual))
    assert {words[0] for words in actual} == set(kinds)
    forms = {words[1] for words in actual if words[0] == "quantize_product"}
    assert forms == {("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("mxfp8", "mxfp8"), ("mxfp8", "mxfp4")}
    assert ("quantize_product", ("nvfp4", "nvfp4"), (128, 28672, 4096)) in actual
