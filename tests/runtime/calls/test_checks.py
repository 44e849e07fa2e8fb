"""What follows from a declaration of an op's arguments: types, extents, results, copies; of an op made up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.calls.checks import check
from tilewright.calls.copies import copy_of
from tilewright.calls.op import Op, Values
from tilewright.calls.placement import Arguments, place_without_copies
from tilewright.calls.signature import parameters
from tilewright.context import Context
from tilewright.declarations.declaration import Combinations, Interface, Matrix, Packed
from tilewright.declarations.matrices import MatrixView
from tilewright.declarations.matrix_tactic import MATRIX_TACTIC
from tilewright.declarations.vocabulary import Choice, Extent, Flag, Types, Words
from tilewright.errors import AlignmentError, ArgumentError, ArgumentTypeError

BF16, FP4 = torch.bfloat16, torch.float4_e2m1fn_x2


@dataclass(frozen=True)
class Problem:
    """out[parts,m,n] of a[m,k], b[groups,k,n] and the scale factors of 128 columns of b."""

    m: int
    n: int
    k: int
    groups: int
    parts: int
    a: str = "bf16"
    b: str = "bf16"
    d: str = "bf16"
    grouped: bool = True
    bias: bool = False
    order: str = "up"

    @property
    def blocks(self) -> int:
        return -(-self.k // 128)


EXTENTS = ("m", "n", "k", "groups", "parts")
ORDERS = {"bf16": ("up", "down"), "nvfp4": ("up",)}
LEGAL = {("bf16", "bf16"): ("bf16", "f32"), ("nvfp4", "nvfp4"): ("bf16",)}
INTERFACE = Interface(
    words=Words(
        "made_up", "", Problem, tuple(Extent(name, "", usual=1) for name in EXTENTS),
        Types("--dtype", "bf16", {}, "", ""),
        (Flag("grouped", ""), Choice("order", "", lambda fields: ORDERS[fields["a"]])),
    ),
    text="",
    types=Combinations(("a", "b"), LEGAL),
    operands=(
        Matrix("a", "", rows="m", columns="k", type="a", raw=True),
        Matrix(
            "b", "", rows="k", columns="n", type="b", raw=True, contiguous="rows",
            batch=lambda problem: "groups" if problem.grouped else "",
        ),
        Packed("scales", "", type="f32", of="b", shape=lambda problem: (problem.blocks, problem.n)),
        Packed("bias", "", extents=("n",), type="d"),
        Matrix("out", "", rows="m", columns="n", batch="parts", type="d", written=True),
    ),
    tactic=MATRIX_TACTIC,
)  # fmt: skip


def made_up(  # noqa: PLR0917 (an op's arguments)
    a: torch.Tensor,
    b: torch.Tensor,
    scales: torch.Tensor,
    bias: torch.Tensor | None = None,
    parts: int = 2,
    grouped: bool = True,
    order: str = "up",
    out_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    raise NotImplementedError


class MadeUp(Op):
    interface = INTERFACE
    name = "made_up"
    parameters = parameters(made_up)

    def fields(self, values: Values) -> Mapping[str, Any]:
        return {"grouped": values["grouped"]}

    def rules(self, values: Values, problem: Any) -> None:
        if problem.m == 13:
            raise ArgumentError("a", "13 rows are too many")


OP = MadeUp()
CALL: dict[str, Any] = {
    "a": torch.zeros(16, 256, dtype=BF16),
    "b": torch.zeros(3, 40, 256, dtype=BF16).mT,
    "scales": torch.zeros(3, 2, 40),
}  # fmt: skip


@pytest.fixture(autouse=True)
def described() -> Iterator[Context]:
    with contexts.use(Context(described=H200)) as context:
        yield context


def checked(**changes: Any) -> Arguments:
    return check(OP, contexts.current(), OP.defaults() | CALL | changes)


def test_extents_types_and_results_are_read() -> None:
    actual = checked(bias=torch.zeros(40, dtype=BF16))
    assert actual.problem == Problem(16, 40, 256, 3, 2, bias=True)
    assert actual.results == (((2, 16, 40), BF16),)
    assert (actual.matrices["b"].rows, actual.matrices["b"].columns, actual.matrices["b"].batch) == (
        256,
        40,
        3,
    )
    assert checked(out_dtype=torch.float32, parts=5).results == (((5, 16, 40), torch.float32),)
    out = torch.zeros(2, 16, 40)
    assert checked(out=out).problem.d == "f32"


def test_a_matrix_has_a_batch_where_the_problem_says_so() -> None:
    actual = checked(grouped=False, b=CALL["b"][0], scales=torch.zeros(2, 40))
    assert (actual.problem.groups, actual.problem.grouped) == (1, False)
    with pytest.raises(ArgumentError, match=r"b: its shape is .*; expected two dimensions"):
        checked(grouped=False)
    with pytest.raises(
        ArgumentError, match=r"b: its shape is .*; expected three dimensions, the batch first"
    ):
        checked(b=CALL["b"][0])


@pytest.mark.parametrize("dtype", [FP4, torch.uint8])
def test_two_elements_of_fp4_share_a_byte_along_the_contiguous_dimension(dtype: torch.dtype) -> None:
    a = torch.zeros(16, 128, dtype=torch.uint8).view(dtype)
    b = torch.zeros(3, 40, 128, dtype=torch.uint8).mT.view(dtype)
    actual = checked(a=a, b=b)
    assert (actual.problem.a, actual.problem.k) == ("nvfp4", 256)
    view = actual.matrices["b"]
    assert (view.rows, view.column_stride, view.batch_stride) == (256, 256, 40 * 256)
    with pytest.raises(ArgumentError, match=r"k of 128, and a's \[16, 128\], k of 256; expected k of 256"):
        checked(a=a, b=b[:, :64])


def test_an_operand_whose_transpose_would_do() -> None:
    with pytest.raises(ArgumentError, match="expected k of 256") as caught:
        checked(b=CALL["b"].mT)
    assert caught.value.hint == "Its transpose has it: pass b.mT."
    with pytest.raises(ArgumentError, match="expected k of 256") as caught:
        checked(b=CALL["b"][:, :128])
    assert caught.value.hint is None


WRONG: list[tuple[str, type[ArgumentError], dict[str, Any]]] = [
    ("a: its dtype is torch.float16; expected one of bfloat16, float4_e2m1fn_x2, uint8", ArgumentTypeError,
     {"a": CALL["a"].half()}),
    (r"b: a is torch.bfloat16 and b is torch.uint8; expected \(a, b\) of \(bfloat16, b", ArgumentTypeError,
     {"b": torch.zeros(3, 40, 128, dtype=torch.uint8).mT}),
    (r"b: its strides are \(.*\); expected contiguous columns: the transpose of a row-major \[n, k\]",
     ArgumentError, {"b": CALL["b"].contiguous()}),
    (r"scales: its shape is \[3, 40\]; expected 240 elements, as of \[3, 2, 40\]", ArgumentError,
     {"scales": torch.zeros(3, 40)}),
    (r"bias: its shape is \[16\]; expected \[40\]", ArgumentError, {"bias": torch.zeros(16, dtype=BF16)}),
    ("bias: its dtype is torch.float32; expected bfloat16", ArgumentTypeError, {"bias": torch.zeros(40)}),
    (r"out: its shape is \[16, 40\]; expected \[2, 16, 40\]", ArgumentError, {"out": torch.zeros(16, 40)}),
    ("out_dtype: it is torch.float16; expected one of bfloat16, float32 for operands of bfloat16, bfloat16",
     ArgumentTypeError, {"out_dtype": torch.float16}),
    ("order: it is 'left'; expected one of up, down", ArgumentError, {"order": "left"}),
    ("grouped: it is a str; expected True or False", ArgumentTypeError, {"grouped": "yes"}),
    ("a: 13 rows are too many", ArgumentError, {"a": CALL["a"][:13]}),
    ("a: it requires a gradient", ArgumentError, {"a": torch.zeros(16, 256, requires_grad=True)}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "error", "change"), WRONG, ids=[case[0][:30] for case in WRONG])
def test_what_is_not_as_declared(message: str, error: type[ArgumentError], change: dict[str, Any]) -> None:
    with pytest.raises(error, match=f"^{message}"):
        checked(**change)


@pytest.mark.parametrize(("parts", "argument"), [(2**30 + 1, "parts"), (2**32 + 2, "parts"), (2**30, None)])
def test_an_extent_that_an_option_says_has_a_limit(parts: int, argument: str | None) -> None:
    """Kernels get 32 bits of it."""
    if argument is None:
        assert checked(parts=parts).problem.parts == parts
        return
    with pytest.raises(ArgumentError, match="expected at most 1073741824") as error:
        checked(parts=parts)
    assert error.value.argument == argument


def test_an_op_copies_nothing_unless_it_says_so() -> None:
    lies = checked()
    assert place_without_copies(INTERFACE, lies, {}).copies == frozenset()
    with pytest.raises(AlignmentError, match="a: its address is not a multiple of 16 bytes"):
        place_without_copies(INTERFACE, lies, {"a": 8})
    wide = checked(a=torch.zeros(16, 260, dtype=BF16)[:, :256])
    with pytest.raises(AlignmentError, match=r"a: .*leading dimension 260 is not a multiple of 8"):
        place_without_copies(INTERFACE, wide, {})


class Copying(MadeUp):
    """Copies an `a` whose rows are not contiguous."""

    interface = replace(
        INTERFACE,
        operands=tuple(replace(operand, copied=operand.name == "a") for operand in INTERFACE.operands),
    )


@pytest.mark.parametrize(
    ("a", "scattered"),
    [
        (torch.zeros(16, 256, dtype=BF16), set()),
        (torch.zeros(256, 16, dtype=BF16).t(), {"a"}),
        (torch.zeros(16 * 7, dtype=BF16).as_strided((16, 1), (1, 7)), set()),
        (torch.zeros(16 * 7, dtype=torch.uint8).as_strided((16, 1), (1, 7)).view(FP4), set()),  # a byte a row
        (torch.zeros(16 * 7, dtype=torch.uint8).as_strided((16, 2), (1, 7)).view(FP4), {"a"}),
    ],
)
def test_an_operand_is_copied_where_a_stride_separates_elements(a: torch.Tensor, scattered: set[str]) -> None:
    k = a.shape[1]
    b = (
        torch.zeros(3, 40, k, dtype=torch.uint8).view(FP4)
        if a.dtype == FP4
        else torch.zeros(3, 40, k).to(BF16)
    )
    call = CALL | {"a": a, "b": b.mT, "scales": torch.zeros(3, -(-k // 128), 40)}
    assert check(Copying(), contexts.current(), OP.defaults() | call).scattered == scattered


def test_strides_that_lead_nowhere_do_not_limit_an_alignment() -> None:
    """The leading dimension of a single row, and the batch stride of a single matrix."""
    rows = MatrixView("bf16", 2, 3, 64, 40, 36, 1)
    assert rows.aligned("columns", 64) == 4
    assert replace(rows, rows=1).aligned("columns", 64) == 8
    assert replace(rows, rows=1, batch=1).aligned("columns", 64) == 64
    assert replace(rows, rows=1, batch=1).aligned("columns", 64, address=32) == 16


def test_a_problem_without_tensors_has_matrices_without_gaps() -> None:
    problem = Problem(16, 40, 256, 3, 2)
    actual = Arguments.dense(INTERFACE, problem)
    assert set(actual.matrices) == {"a", "b"}
    assert actual.matrices["b"] == checked().matrices["b"]


def test_copies_are_padded_with_zeros() -> None:
    larger = replace(checked().problem, k=264, n=48)
    copy = copy_of(INTERFACE.operand("b"), torch.ones(3, 40, 256, dtype=BF16).mT, larger)
    assert (copy.shape, copy.stride(-2)) == ((3, 264, 48), 1)
    assert copy[:, :256, :40].eq(1).all()
    assert copy.sum() == 3 * 256 * 40
    bias = copy_of(INTERFACE.operand("bias"), torch.ones(40), larger)
    assert (bias.shape, bias.sum()) == ((48,), 40)
