"""How FP4 of `mqa_logits` lies in registers and shared memory, against PTX's own layouts, on the host.

The block-scaled instruction is sm_12x's, and no such GPU has run these kernels: what it gets is checked here.
"""

from __future__ import annotations

from pathlib import Path

from host_programs import ROOT, compiled, empty_headers, run

HERE = Path(__file__).parent
INCLUDE = ROOT / "runtime/include"
# Headers that hold little but PTX, which no host assembles: mqa_fp4.cc says what is wanted of them.
PTX = ("elements.hpp", "ptx.hpp", "wgmma.hpp", "wgmma_registers.hpp")
MULTIPLY = 'asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));'


def test_fragments_are_those_of_the_product() -> None:
    text = (INCLUDE / "tilewright/sm90/e2m1.hpp").read_text()
    assert text.count(MULTIPLY) == 1
    files = empty_headers(f"tilewright/sm90/{name}" for name in PTX)
    files["tilewright/sm90/e2m1.hpp"] = text.replace(MULTIPLY, "product = host::multiply(x, y);")
    options = ["-std=c++17", "-O1", f"-I{HERE}", f"-I{INCLUDE}"]
    done = run(compiled("mqa_fp4", [HERE / "mqa_fp4.cc"], options, files=files))
    assert (done.returncode, done.stdout) == (0, "")
