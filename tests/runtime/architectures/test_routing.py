from __future__ import annotations

import pytest

from tilewright.architectures import routing

CAPABILITIES = [
    (8, 0),
    (8, 9),
    (9, 0),
    (10, 0),
    (10, 3),
    (10, 7),
    (11, 0),
    (11, 1),
    (12, 0),
    (12, 1),
    (12, 2),
    (12, 5),
    (13, 0),
]

# Each target, and every capability above that runs it.
REACH = {
    "sm_90a": [(9, 0)],
    "sm_90": [(9, 0)],
    "sm_100a": [(10, 0)],
    "sm_100f": [(10, 0), (10, 3), (10, 7)],
    "sm_103a": [(10, 3)],
    "sm_103f": [(10, 3), (10, 7)],
    "sm_107a": [(10, 7)],
    "sm_110a": [(11, 0)],
    "sm_110f": [(11, 0), (11, 1)],
    "sm_120a": [(12, 0)],
    "sm_120f": [(12, 0), (12, 1), (12, 2), (12, 5)],
    "sm_120": [(12, 0), (12, 1), (12, 2), (12, 5)],
    "sm_121a": [(12, 1)],
    "sm_121f": [(12, 1), (12, 2), (12, 5)],
}


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("target", REACH)
def test_reach(target: str, capability: tuple[int, int]) -> None:
    assert routing.runs_on(target, capability) == (capability in REACH[target])


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_what_a_message_asks_for_would_run(capability: tuple[int, int]) -> None:
    assert routing.runs_on(routing.wanted_target(capability), capability)


@pytest.mark.parametrize(
    ("capability", "target"),
    [
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((10, 3), "sm_103a"),
        ((10, 7), "sm_100f"),  # Rubin runs what is compiled for the family
        ((11, 0), "sm_110a"),
        ((12, 0), "sm_120f"),
        ((12, 1), "sm_120f"),
        ((12, 2), "sm_120f"),
        ((13, 0), "sm_130a"),
    ],
)
def test_what_a_message_asks_for(capability: tuple[int, int], target: str) -> None:
    assert routing.wanted_target(capability) == target


@pytest.mark.parametrize("name", ["90a", "sm_9", "sm_90x", "compute_90a", "sm_90a ", ""])
def test_names_that_are_no_targets(name: str) -> None:
    with pytest.raises(ValueError, match="not a target"):
        routing.runs_on(name, (9, 0))


def test_advice_names_a_target_that_the_family_knows() -> None:
    text = routing.advice("quantize", ("sm_90a", "sm_110f"), (11, 0), ["specs/quantize.yaml"], [])
    assert "a spec beside specs/quantize.yaml with `family: quantize` and `arch: sm_110f`" in text
    assert "`tilewright build --filter arch=sm_110f`" in text


def test_advice_where_the_family_knows_none() -> None:
    text = routing.advice("gemm", ("sm_90a",), (10, 3), ["specs/x.yaml"], ["blockscaled_gemm"])
    assert "know no target of this GPU (they know sm_90a)" in text
    assert "There are kernels of blockscaled_gemm for this GPU." in text
    assert "arch:" not in text
