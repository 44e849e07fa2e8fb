"""What a config.json may hold: a wrong field is named, and large numbers cost nothing."""

from __future__ import annotations

from typing import Any

import pytest
from model_files import LLAMA, MIXTURE, Write, listed

from tilewright.errors import ArgumentError, UnreadableFileError
from tilewright.models import configuration


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": None}, "hidden_size: expected a whole number from 1, got None"),
        ({"num_hidden_layers": "4"}, "num_hidden_layers: expected a whole number from 1, got '4'"),
        ({"attention_bias": 1}, "attention_bias: expected true or false, got 1"),
        ({"torch_dtype": "int8"}, "torch_dtype: expected one of bfloat16, float16, float32, got 'int8'"),
        ({"torch_dtype": ["bfloat16"]}, "torch_dtype: expected one of bfloat16, float16, float32, got ['bf"),
        ({"model_type": "lama"}, "model_type: 'lama' is not known; did you mean 'llama'?"),
        ({"quantization_config": []}, "quantization_config: expected an object with a quant_method"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], message: str, write: Write) -> None:
    path = write(LLAMA, **fields)
    with pytest.raises(UnreadableFileError) as wrong:
        listed(path)
    assert f"{path}: {message}" in wrong.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"decoder_sparse_step": 0}, "decoder_sparse_step: expected a whole number from 1, got 0"),
        ({"mlp_only_layers": ["0"]}, "mlp_only_layers: expected a list of numbers, got ['0']"),
        ({"mlp_only_layers": 3}, "mlp_only_layers: expected a list of numbers, got 3"),
    ],
)
def test_a_wrong_field_of_experts_is_named(fields: dict[str, Any], message: str, write: Write) -> None:
    path = write(MIXTURE, **fields)
    with pytest.raises(UnreadableFileError) as wrong:
        listed(path)
    assert f"{path}: {message}" in wrong.value.message


def test_layers_are_counted_not_listed(write: Write) -> None:
    """A file may say 2^29 layers: their numbers would take gigabytes."""
    fields = {"num_hidden_layers": 1 << 29, "decoder_sparse_step": 4, "mlp_only_layers": [3, 4, 3, 1 << 29]}
    path = write(MIXTURE, **fields, intermediate_size=8)
    experts = configuration.read(path).experts
    assert experts is not None
    assert experts.layers == (1 << 27) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 3}, "tp: 3: expected a divisor of the heads (16)"),
        ({"tp": 32}, "tp: 32: expected a divisor of the heads (16)"),
        ({"ep": 5}, "ep: 5: expected a divisor of the number of experts (32)"),
    ],
)
def test_a_model_that_cannot_be_divided(options: dict[str, int], message: str, write: Write) -> None:
    with pytest.raises(ArgumentError) as wrong:
        listed(write(MIXTURE), **options)
    assert message in wrong.value.message
    with pytest.raises(ArgumentError, match="has no experts"):
        listed(write(LLAMA), ep=2)
