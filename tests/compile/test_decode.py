"""Elements of MXFP8 as kernels for sm_90a decode them: every code with every scale, on the host."""

from __future__ import annotations

from pathlib import Path

from host_programs import ROOT, compiled, run

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
MULTIPLY = 'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));'


def test_every_element_with_every_scale() -> None:
    """Also NaN, infinities and the scales that take a second factor."""
    text = (INCLUDE / "tilewright/sm90/e2m1.hpp").read_text()
    assert text.count(MULTIPLY) == 1
    files = {
        "tilewright/sm90/e2m1.hpp": text.replace(MULTIPLY, "product = host::multiply(x, y);"),
        "tilewright/sm90/elements.hpp": "#pragma once\n",
    }
    options = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{INCLUDE}"]
    done = run(compiled("decode", [HERE / "decode.cc"], options, files=files))
    assert (done.returncode, done.stdout) == (0, "")
