"""What docstrings of public ops say alike. It needs no torch: `help()` reads so without it, too."""

from __future__ import annotations

import inspect

_RAISES = """\
Raises:
    ArgumentError: an argument is wrong; the message says which, what it is and what is expected.
    UnsupportedDeviceError: no kernel runs on this GPU.
    NoKernelError: no kernel computes this problem.
    NotBuiltError: the kernel is not built, and TILEWRIGHT_JIT=0.
"""


def completed(docstring: str | None) -> str:
    """An op's docstring, with the errors that every op raises before those that are its own."""
    text = inspect.cleandoc(docstring or "")
    before, own, after = text.partition("Raises:\n")
    return f"{before}{_RAISES}{after}" if own else f"{text}\n\n{_RAISES}".rstrip()
