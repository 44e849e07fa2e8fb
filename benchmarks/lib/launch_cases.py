"""Single launches that cold_launches.py times: operands in sets, and the calls of each side on them."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from benchmarks.lib.deepgemm_calls import MORE_ROWS, call_deep_gemm, with_whole_blocks
from benchmarks.lib.random_problems import Drawn, Einsum

import tilewright
from tilewright import context
from tilewright.contractions.einsum import lowered_call
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import measuring as gemm_measuring
from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.families.grouped_gemm import measuring as grouped_measuring
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.families.grouped_gemm.problem import Problem as GroupedProblem
from tilewright.families.reduced_gemm import measuring as reduced_measuring
from tilewright.families.reduced_gemm.family import FAMILY as REDUCED
from tilewright.formats.types import bits
from tilewright.tools.measuring import copies
from tilewright.tools.timing import rotations

MOST_BYTES = 8 * 10**9  # of all sets of operands
LEAST_SETS = 2
MOST_SECONDS = 2  # of a launch: one that takes longer is taken for one that never ends
# The norm of the difference of both sides' results, relative to the peer's. cuBLAS was seen 2 % off float64
# in two products of long k (tt 14x128x20168 and nt 80x200x32392), where ours were 0.2 % off.
TOLERANCES = {"cublas": 3e-2, "torch": 3e-2, "deep_gemm": 1e-2}

Call = Callable[[Any], Any]  # of a set of operands; answers the result, or None if it is the set's `out`


@dataclass
class Case:
    """One problem: its sets of operands, and what is called on each of them."""

    sets: list[Any]
    ours: Call
    peers: dict[str, Call]
    family: Any = None
    problem: Any = None
    """The problem by which a tactic is selected; None if the call is no single op with tactics."""

    def choice(self) -> str | None:
        """The tactic that the runtime selects."""
        if self.family is None:
            return None
        current = context.current()
        device = current.device(torch.cuda.current_device())
        return str(current.select(self.family, self.problem, device).tactic)

    def tactics(self) -> list[Tactic]:
        """All legal tactics of kernels that are built, the model's first one first."""
        current = context.current()
        device = current.device(torch.cuda.current_device())
        records = current.registry.route(self.family.name, device)
        built = [record for record in records if current.registry.is_built(record)]
        return [candidate.tactic for candidate in self.family.rank(built, self.problem, device)]

    def calls(self, call: Call, most: int | None = None) -> list[Callable[[], Any]]:
        """A call on each set, or on the first `most`."""
        return [functools.partial(call, operands) for operands in self.sets[:most]]

    def check(self) -> None:
        """Raises ValueError if a peer's result differs from ours by more than rounding, and TimeoutError if a
        side does not end. The message says how far each is from float64."""
        actual = _result(self.sets[0], self.ours)
        wait_for("ours")
        for peer, call in self.peers.items():
            result = _result(self.sets[0], call)
            wait_for(peer)
            difference = relative_difference(actual, result)
            if not difference <= TOLERANCES[peer]:  # a NaN fails
                raise ValueError(
                    f"differs from {peer} by {difference:.2e}, {TOLERANCES[peer]:.0e} is allowed"
                    + _judged(self.sets[0], {"ours": actual, peer: result})
                )

    def is_right(self, call: Call) -> bool:
        """Whether a call has the same result as our own."""
        result = _result(self.sets[0], call)
        return relative_difference(_result(self.sets[0], self.ours), result) <= TOLERANCES["cublas"]


def wait_for(side: str) -> None:
    """Waits for what was launched. Raises TimeoutError after some seconds; the GPU then stays busy."""
    event = torch.cuda.Event()
    event.record()
    until = time.monotonic() + MOST_SECONDS
    while not event.query():
        if time.monotonic() > until:
            raise TimeoutError(f"{side} does not end within {MOST_SECONDS} s")


def relative_difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The norm of the difference, relative to the expected norm."""
    wide = expected.double()
    return float((actual.double() - wide).norm() / wide.norm())


def _judged(operands: Any, results: Mapping[str, torch.Tensor]) -> str:
    """The distance of each result from the product in float64, as text for a message; empty if operands have
    no such product."""
    if not isinstance(operands, grouped_measuring.Operands):
        return ""
    operands.out.zero_()  # as for the results, because it may be C, too
    _, expected = operands.compared(every=True)
    distances = {side: relative_difference(result, expected) for side, result in results.items()}
    return "; from float64: " + ", ".join(f"{side} {distance:.2e}" for side, distance in distances.items())


def _result(operands: Any, call: Call) -> torch.Tensor:
    """The result of a call with a zero D, in the rows that count."""
    operands.out.zero_()
    returned = call(operands)
    result = returned if isinstance(returned, torch.Tensor) else operands.out
    problem = getattr(operands, "problem", None)
    if isinstance(problem, GroupedProblem) and problem.grouping in ("row_index", "rows_valid"):
        return result.reshape(-1, problem.n)[operands.groups() >= 0]
    return result.clone()


def number_of_sets(moved: int, allocated: int, l2_bytes: int) -> int:
    """Sets to take in turn, so that L2 holds no operand at its next use, as far as memory allows."""
    return max(LEAST_SETS, min(rotations(moved, l2_bytes), MOST_BYTES // max(1, allocated)))


def case_of(problem: Drawn, deep_gemm: Any, sets: int | None = None) -> Case:
    """The case of a problem, with the peers that compute it. `sets`: how many, instead of enough."""
    generator = torch.Generator("cuda").manual_seed(0)
    if isinstance(problem, Einsum):
        return _einsum(problem, deep_gemm, generator, sets)
    if isinstance(problem, GemmProblem):
        peer = gemm_measuring.peer(problem)
        assert peer is not None
        first = gemm_measuring.make(problem, generator)
        return _of_family(GEMM, problem, first, {"cublas": peer[1]}, sets)
    if isinstance(problem, GroupedProblem):
        expected = int(problem.expected_m * MORE_ROWS)
        operands = grouped_measuring.make(problem, generator)
        sizes: list[int] = []
        if problem.grouping == "rows_valid":
            operands = operands.changed(expected_m=expected)
        if problem.grouping == "k_sizes":
            operands = with_whole_blocks(operands)
            sizes = operands.group_k.tolist()
        peers = {"deep_gemm": lambda x: call_deep_gemm(deep_gemm, x, sizes)}
        case = _of_family(GROUPED, replace(problem, expected_m=expected), operands, peers, sets)
        if problem.grouping == "rows_valid":
            for copy in case.sets[1:]:
                grouped_measuring.redraw_rows(copy, generator)
        return case
    reduced = {
        "deep_gemm": lambda x: deep_gemm.einsum("bmk,bnk->mn", x.a, x.b.mT, x.out, c=x.out),
        "torch": lambda x: torch.einsum("bmk,bkn->mn", x.a, x.b),
    }
    return _of_family(REDUCED, problem, reduced_measuring.make(problem, generator), reduced, sets)


def _of_family(family: Any, problem: Any, first: Any, peers: dict[str, Call], sets: int | None) -> Case:
    of_a, of_d = bits(problem.a), bits(problem.d)
    allocated = ((first.a.numel() + first.b.numel()) * of_a + first.out.numel() * of_d) // 8
    operand_sets = copies(first, sets or number_of_sets(problem.bytes, allocated, _l2_bytes()))
    for operands in operand_sets:
        if problem.c:
            operands.c = operands.out  # added to where it lies, as DeepGEMM requires
    return Case(operand_sets, lambda x: x.call(), peers, family, problem)


def _einsum(problem: Einsum, deep_gemm: Any, generator: torch.Generator, sets: int | None) -> Case:
    left, right, result = problem.equation.replace("->", ",").split(",")

    def random(term: str) -> torch.Tensor:
        return torch.randn(problem.shape(term), generator=generator, device="cuda", dtype=torch.bfloat16)

    operand_sets: list[Any] = []
    for _ in range(sets or number_of_sets(problem.bytes, problem.bytes, _l2_bytes())):
        out = torch.empty(problem.shape(result), device="cuda", dtype=torch.bfloat16)
        a, b = random(left), random(right)
        views = lowered_call(problem.equation, a, b, out=out, c=None)
        call = functools.partial(_product, views.left, views.right, views.out)
        operand_sets.append(SimpleNamespace(a=a, b=b, out=out, call=call))
    peers = {
        "deep_gemm": lambda x: deep_gemm.einsum(problem.equation, x.a, x.b, x.out),
        "torch": lambda x: torch.einsum(problem.equation, x.a, x.b),
    }
    ours = functools.partial(_einsum_of, problem.equation)
    return Case(operand_sets, ours, peers, GEMM, product_of(problem))


def _einsum_of(equation: str, operands: Any) -> torch.Tensor:
    return tilewright.einsum(equation, operands.a, operands.b, out=operands.out)


def _product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, tactic: Tactic) -> None:
    """The product that an einsum is, by a given tactic. Returns nothing, because `out` is a view with its
    letters in another order than the einsum's."""
    tilewright.gemm(left, right, out=out, tactic=tactic)


def product_of(problem: Einsum) -> GemmProblem:
    """The batched product that computes an einsum: h counts the batch, b the rows."""
    if problem.equation == "bhr,hdr->bhd":
        return GemmProblem(problem.b, problem.d, problem.r, batch=problem.h)
    return GemmProblem(problem.b, problem.r, problem.d, batch=problem.h, layout="tt")


def _l2_bytes() -> int:
    return int(torch.cuda.get_device_properties().L2_cache_size)


class OtherKernels:
    """A softmax and a layer norm over 16 MB each, whose code and data replace what the caches hold."""

    ROWS, COLUMNS = 2048, 4096

    def __init__(self) -> None:
        self._x = torch.randn(self.ROWS, self.COLUMNS, device="cuda", dtype=torch.bfloat16)
        self._y = torch.randn_like(self._x)

    def __call__(self) -> Sequence[torch.Tensor]:
        """Their results, each in memory of its own while the caller keeps it."""
        normed = torch.nn.functional.layer_norm(self._y, (self.COLUMNS,))
        return torch.softmax(self._x, dim=-1), normed

    def before(self, call: Callable[[], Any]) -> Callable[[], Any]:
        """A call that runs these kernels and then the given call."""
        return lambda: (self(), call())
