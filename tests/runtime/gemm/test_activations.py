"""An activation has a number in Python, C and device code, and a formula in torch and on the device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tilewright.families.gemm import kernel_mainloops
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.gemm.problem import ACTIVATIONS, GATED, GIVEN
from tilewright_generator import families
from tilewright_generator.fields import fields_of

ROOT = Path(__file__).parents[3]
HEADERS = ROOT / "runtime/include/tilewright"
REFERENCE = (ROOT / "tests/gpu/gemm_reference.py").read_text(encoding="utf-8")


def names(header: str, pattern: str) -> list[str]:
    """What a header calls its activations, in lower case, in its order."""
    actual = re.findall(pattern, (HEADERS / header).read_text(encoding="utf-8"))
    assert actual, f"{header} has no {pattern}"
    return [name.lower() for name in actual]


def device_enum() -> str:
    (body,) = names("sm90/epilogue_params.hpp", r"enum class Activation \{([^}]*)\}")
    return body


def numbered_for_tcgen05() -> list[str]:
    """The activations of kernels of tcgen05, by their numbers, which begin at 1."""
    pattern = r"([A-Z0-9_, ]+) = ([0-9, ]+)  # tilewright_activation"
    text = (HEADERS / "gemm/tcgen05_results.py").read_text(encoding="utf-8")
    ((left, right),) = re.findall(pattern, text)
    numbers = dict(zip(map(int, right.split(", ")), left.lower().split(", "), strict=True))
    return [numbers[number] for number in range(1, len(numbers) + 1)]


PLACES = {
    "gemm/args.h": names("gemm/args.h", r"TILEWRIGHT_ACTIVATION_(\w+) = \d+"),
    "sm90/epilogue_params.hpp": re.findall(r"k(\w+)", device_enum())[:-1],
    "sm90/element_epilogue.hpp": [
        "none",
        *names("sm90/element_epilogue.hpp", r"activation == Activation::k(\w+)"),
    ],
    "gemm/tcgen05_results.py, formulas": [
        "none",
        *names("gemm/tcgen05_results.py", r"if activation == (\w+):"),
    ],
    "gemm/tcgen05_results.py, numbers": ["none", *numbered_for_tcgen05()],
    "families/gemm/op.py": [*ACTIVATED][: -len(GATED)],
    "tests/gpu/gemm_reference.py": re.findall(
        r'"(\w+)":', REFERENCE.split("ACTIVATIONS = {")[1].split("\n}")[0]
    )[: -len(GATED)],
    "families/gemm/kernel_mainloops.py": [*kernel_mainloops.ACTIVATIONS],
}


@pytest.mark.parametrize("place", PLACES)
def test_an_activation_is_known_everywhere(place: str) -> None:
    assert PLACES[place] == [*ACTIVATIONS]


def test_specs_know_the_activations_and_that_a_call_says_which() -> None:
    field = fields_of(families.get("gemm"))["activation"]
    assert field.values.split("|") == [*ACTIVATIONS, GIVEN, *GATED]
    assert re.findall(r"k(\w+)", device_enum())[-1] == GIVEN


def test_a_gated_activation_is_known_to_torch_to_the_reference_and_to_a_gate() -> None:
    assert [*ACTIVATED] == [*ACTIVATIONS, *GATED]
    assert all(f'"{name}": ' in REFERENCE for name in GATED)
    assert set(GATED.values()) < set(ACTIVATIONS)
    x = torch.tensor([[-2.0, 3.0, 5.0, 7.0], [1.0, 0.0, -1.0, 4.0]])
    expected = torch.nn.functional.silu(x[:, :2]) * x[:, 2:]
    assert torch.equal(ACTIVATED["silu_mul"](x), expected)


def test_torch_computes_something_else_for_each() -> None:
    x = torch.linspace(-2, 2, 9)
    values = [ACTIVATED[activation](x) for activation in ACTIVATIONS]
    assert len({tuple(value.tolist()) for value in values}) == len(ACTIVATIONS)
