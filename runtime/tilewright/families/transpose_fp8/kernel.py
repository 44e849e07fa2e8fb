"""One `transpose_fp8` kernel: FP8 matrices whose columns become rows."""

from __future__ import annotations

from tilewright.configurations.mover import Mover

_mover = Mover("transpose_fp8", "bytes, tiles of 128x128 through shared memory")
kernel_name, summary, facts = _mover.kernel_name, _mover.summary, _mover.facts
build, variables = _mover.build, _mover.variables
