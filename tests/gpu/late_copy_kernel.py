"""A copying kernel that lets the next one of its stream start, waits, and copies then (see late_writes.py).

In a module of its own without `annotations` of the future: Triton reads the kernel's annotations.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, globaltimer


@triton.jit
def late_copy(source, target, count, nanoseconds, block: tl.constexpr):
    """Each program copies blocks of bytes in turn."""
    gdc_launch_dependents()
    start = globaltimer()
    passed = globaltimer() - start
    while passed < nanoseconds:
        passed = globaltimer() - start
    for first in range(tl.program_id(0) * block, count, tl.num_programs(0) * block):
        at = first + tl.arange(0, block)
        tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)
