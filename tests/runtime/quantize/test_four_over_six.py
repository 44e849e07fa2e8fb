"""The reference of NVFP4 with the better of two scales for each block."""

from __future__ import annotations

import pytest
import torch

from tilewright import reference
from tilewright.errors import ArgumentError

# x, the scale that makes its amax 4 times the scale, and what is read back: 4.5 of 6 is nearer to 3 of 4.
BLOCK = torch.tensor([[6.0, 4.5] + [0.0] * 14])


def errors(x: torch.Tensor, choice: str, scale: torch.Tensor) -> torch.Tensor:
    """The error of each block in float64: the sum of squares, or of magnitudes with mae."""
    data, scales = reference.quantize(x, "nvfp4", scale, four_over_six=choice)
    off = reference.dequantize(data, scales, "nvfp4", global_scale=scale) - x.double()
    return off.reshape(*x.shape[:-1], -1, 16)


@pytest.mark.parametrize("choice", ["mse", "mae"])
def test_a_block_by_hand(choice: str) -> None:
    data, scales = reference.quantize(BLOCK, "nvfp4", 1.0, layout="linear", four_over_six=choice)
    assert float(scales.float()[0, 0]) == 1.5
    assert data[0, 0] == 0x56  # 6 / 1.5 is 4, 4.5 / 1.5 is 3: the codes 6 and 5
    data, scales = reference.quantize(BLOCK, "nvfp4", 1.0, layout="linear")
    assert (float(scales.float()[0, 0]), int(data[0, 0])) == (1.0, 0x67)  # 4.5 became 4


@pytest.mark.parametrize("most", [448, 256])
@pytest.mark.parametrize("choice", ["mse", "mae"])
def test_the_smaller_error_is_taken(choice: str, most: int) -> None:
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(3))
    scale = most * 6 / x.abs().amax()
    power = 2 if choice == "mse" else 1
    plain, better = (errors(x, setting, scale).abs().pow(power).sum(-1) for setting in ("none", choice))
    assert bool((better <= plain * (1 + 1e-5)).all())
    assert float((better < plain).float().mean()) > 0.3  # and often it is another
    assert float(better.sum() / plain.sum()) < 0.97


def test_each_choice_is_best_by_its_own_error() -> None:
    x = torch.randn(64, 512, generator=torch.Generator().manual_seed(4))
    scale = 256 * 6 / x.abs().amax()
    mse, mae = (errors(x, choice, scale) for choice in ("mse", "mae"))
    assert float(mse.pow(2).sum()) < float(mae.pow(2).sum())
    assert float(mae.abs().sum()) < float(mse.abs().sum())


def test_a_scale_for_each_row_and_masked_rows() -> None:
    x = torch.randn(2, 40, 64, generator=torch.Generator().manual_seed(5))
    scale = 256 * 6 / x.abs().amax(dim=-1)
    valid = torch.tensor([40, 7], dtype=torch.int32)
    options = {"layout": "linear", "four_over_six": "mse"}
    data, scales = reference.quantize(x, "nvfp4", scale, rows_valid=valid, **options)  # type: ignore[arg-type]
    for group, row in ((0, 0), (1, 6)):
        alone = reference.quantize(x[group, row : row + 1], "nvfp4", scale[group, row], **options)  # type: ignore[arg-type]
        assert torch.equal(data[group, row], alone[0][0])
        assert torch.equal(scales[group, row].view(torch.uint8), alone[1][0].view(torch.uint8))
    assert not bool(scales[1, 7:].view(torch.uint8).any())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_cannot_be_compared_keeps_the_first_scale(value: float) -> None:
    x = torch.cat([torch.full((1, 1), value), torch.ones(1, 15)], dim=1)
    for choice in ("mse", "mae"):
        actual = reference.quantize(x, "nvfp4", four_over_six=choice)
        expected = reference.quantize(x, "nvfp4")
        assert torch.equal(actual[0], expected[0])
        assert torch.equal(actual[1].view(torch.uint8), expected[1].view(torch.uint8))


@pytest.mark.parametrize(("format", "choice"), [("mxfp4", "mse"), ("nvfp4", "rms")])
def test_what_is_refused(format: str, choice: str) -> None:
    with pytest.raises(ArgumentError, match=f"four_over_six: '{choice}' for {format}"):
        reference.quantize(BLOCK, format, four_over_six=choice)
