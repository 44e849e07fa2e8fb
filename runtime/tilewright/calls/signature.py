"""A public op's parameters, by their annotations: what of them is a tensor, a number, an option."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Kind = Literal[
    "tensor", "optional tensor", "scale", "number", "addend factor", "dtype", "flag", "word", "integer",
    "optional integer", "integers", "tactic",
]  # fmt: skip

_KINDS: dict[str, Kind] = {
    "torch.Tensor": "tensor",
    "torch.Tensor | None": "optional tensor",
    "float | torch.Tensor | None": "scale",
    "float": "number",
    "float | None": "addend factor",
    "torch.dtype": "dtype",
    "torch.dtype | None": "dtype",
    "bool": "flag",
    "str": "word",
    "str | None": "word",
    "int": "integer",
    "int | None": "optional integer",
    "Sequence[int]": "integers",
    "Tactic | str | None": "tactic",
}
# As in schemas of torch's ops. None stands for a default that a schema cannot express.
_SCHEMAS: dict[Kind, str] = {
    "tensor": "Tensor",
    "optional tensor": "Tensor?",
    "scale": "Tensor?",
    "number": "float",
    "addend factor": "float?",
    "dtype": "ScalarType?",
    "flag": "bool",
    "word": "str?",
    "integer": "int",
    "optional integer": "int?",
    "integers": "int[]?",
    "tactic": "str?",
}


class Parameter(NamedTuple):
    """A parameter of an op.

    An `addend factor` is the number by which an optional operand is multiplied (that operand's
    `unread_if_zero`). A call that leaves it out means 1 with the operand and 0 without, as in torch.addmm.
    """

    name: str
    kind: Kind
    default: Any  # `inspect.Parameter.empty` if it has none
    by_keyword: bool  # alone

    @property
    def is_tensor(self) -> bool:
        return self.kind in ("tensor", "optional tensor", "scale")

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "addend factor")

    def schema(self) -> str:
        """The parameter in the words of a torch schema."""
        kind = _SCHEMAS[self.kind]
        if self.default is inspect.Parameter.empty:
            return f"{kind} {self.name}"
        if self.kind == "word" and self.default is not None:
            return f'str {self.name}="{self.default}"'
        default = self.default if isinstance(self.default, (bool, int, float)) else None
        return f"{kind} {self.name}={default}"


def parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """In the function's order. Its annotations are the ones above."""
    parameters = []
    for parameter in inspect.signature(function).parameters.values():
        kind = _KINDS[str(parameter.annotation)]
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        parameters.append(Parameter(parameter.name, kind, parameter.default, keyword))
    return tuple(parameters)
