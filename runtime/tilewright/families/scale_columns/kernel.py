"""One `scale_columns` kernel: FP32 scales into columns, as TMA reads them."""

from __future__ import annotations

from tilewright.configurations.mover import Mover

_mover = Mover("scale_columns", "f32 scales into columns of floats, or of words of four exponents")
kernel_name, summary, facts = _mover.kernel_name, _mover.summary, _mover.facts
build, variables = _mover.build, _mover.variables
