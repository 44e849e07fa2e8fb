"""A kernel that does not compile sinks no call: the next choice is another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.architectures.device import H200
from tilewright.context import MAX_REFUSED, Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import UncompilableError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools.explaining import explain

PROBLEM = Problem(256, 256, 256)
PLAIN, STREAMK = (
    "host_bf16_tn",
    "host_bf16_tn_streamk",
)  # the kernels that compute it, the model's first first


class Compiler:
    """Refuses some kernels, and makes of each other one that it is asked for a library that holds it."""

    def __init__(self, library: Path, built: Callable[..., Any], refused: tuple[str, ...]) -> None:
        self.refused = refused
        self.asked: list[str] = []
        self._library = library
        self._built = built
        self._names: set[str] = set()

    def __call__(self, table: Any, kernel: str) -> None:
        self.asked.append(kernel)
        if kernel in self.refused:
            raise UncompilableError(f"{kernel}: no")
        self._names.add(kernel)

    def libraries(self, module: str) -> list[Any]:
        lacking = ("host_absent", *({PLAIN, STREAMK} - self._names))
        return [self._built(self._library, lacking)] if self._names else []


@pytest.fixture
def place(
    host_library: Path, host_generated: Path, built: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Context, Compiler]]:
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))

    def make(*refused: str, generated: Path = host_generated) -> tuple[Context, Compiler]:
        compiler = Compiler(host_library, built, refused)
        registry = Registry(generated, libraries=compiler.libraries, build=compiler)
        return Context(registry, described=H200), compiler

    return make


def test_the_next_one_is_taken(place, caplog: pytest.LogCaptureFixture) -> None:
    context, compiler = place(PLAIN)
    assert context.select(FAMILY, PROBLEM, H200).record.name == PLAIN
    for problem in (PROBLEM, PROBLEM, Problem(512, 256, 256)):
        choice, library = context.load(FAMILY, problem, H200)
        assert choice.record.name == STREAMK
        assert STREAMK in library.kernels
    assert compiler.asked == [PLAIN, STREAMK]
    assert caplog.text.count("does not compile here") == 1
    why = context.select(FAMILY, Problem(1024, 256, 256), H200).why
    assert f"passed over {PLAIN}" in why
    assert "it does not compile" in why
    assert explain(context, FAMILY, PROBLEM, H200).raises is None


def test_an_op_computes_all_the_same(place) -> None:
    torch = pytest.importorskip("torch")
    import tilewright  # noqa: PLC0415
    from tilewright import context as contexts  # noqa: PLC0415

    context, _ = place(PLAIN)
    a, b = torch.randn(256, 256).bfloat16(), torch.randn(256, 256).bfloat16()
    with contexts.use(context):
        torch.testing.assert_close(tilewright.gemm(a, b.mT), (a.double() @ b.mT.double()).bfloat16())


def test_none_is_left(place) -> None:
    context, compiler = place(PLAIN, STREAMK)
    for _ in range(2):
        with pytest.raises(UncompilableError, match=f"{PLAIN}: no"):
            context.load(FAMILY, PROBLEM, H200)
        assert compiler.asked == [PLAIN, STREAMK]  # once each
    explanation = explain(context, FAMILY, PROBLEM, H200)
    assert "a call raises UncompilableError:" in "\n".join(explanation.lines())
    assert "cannot be: it does not compile" in explanation.as_json()["raises"]


def test_one_that_the_caller_names_is_not_replaced(place) -> None:
    context, compiler = place(PLAIN)
    for _ in range(2):
        with pytest.raises(UncompilableError, match=f"{PLAIN}: no"):
            context.load(FAMILY, PROBLEM, H200, Tactic(PLAIN))
    assert compiler.asked == [PLAIN]


def test_a_call_compiles_a_few_in_vain_at_most(place, tmp_path: Path, row, table) -> None:
    """Where none compiles, it is the toolchain or a header: hundreds of kernels are not tried for that."""
    names = [f"bf16_{n}" for n in range(128, 512, 32)]
    table(tmp_path, "many", [row(name, tile=[128, int(name[5:]), 64]) for name in names])
    context, compiler = place(*names, generated=tmp_path)
    with pytest.raises(UncompilableError) as caught:
        context.load(FAMILY, PROBLEM, H200)
    assert len(set(compiler.asked)) == len(compiler.asked) == MAX_REFUSED
    assert caught.value.message == f"{compiler.asked[0]}: no"


def test_forgotten_by_a_refresh(place) -> None:
    context, compiler = place(PLAIN)
    context.load(FAMILY, PROBLEM, H200)
    compiler.refused = ()
    context.registry.refresh()
    assert context.registry.buildable(context.registry.record(PLAIN))
