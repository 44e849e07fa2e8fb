"""The Python that is written out for calls of `gemm`, beside a committed copy of it.

`PYTHONPATH=generator:runtime python tests/runtime/calls/test_emitting.py` writes the copy anew. A review then
sees in it what a change of the emitter does.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

COPY = Path(__file__).parent / "data/gemm_call.py"


def emitted() -> str:
    """The public function, a prepared call, and the kernels of torch's ops `gemm` and `gemm_amax_out`."""
    import tilewright  # noqa: PLC0415 (tests without torch collect this file)
    from tilewright.calls import emitting, registered  # noqa: PLC0415
    from tilewright.calls.publish import published  # noqa: PLC0415

    op = published[tilewright.gemm]
    kernels = [registered.kernel_lines(op, ""), registered.kernel_lines(op, "_amax", ("out",))]
    functions = [emitting.eager(op), emitting.prepared(op), *kernels]
    return "\n\n\n".join("\n".join(lines) for lines in functions) + "\n"


def test_the_python_of_calls_is_as_committed() -> None:
    pytest.importorskip("torch")
    lines = COPY.read_text(encoding="utf-8").splitlines(), emitted().splitlines()
    difference = "\n".join(difflib.unified_diff(*lines, "committed", "emitted", lineterm=""))
    assert not difference, difference


if __name__ == "__main__":
    COPY.write_text(emitted(), encoding="utf-8")
