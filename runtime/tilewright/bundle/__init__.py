"""Bundles: the kernels of one model on one GPU, built ahead of time, and which of them computes what.

`tilewright bundle` makes a folder of libraries and a `bundle.json`. A context with a bundle takes every
tactic from there: nothing is estimated, nothing is compiled, and what is not in the bundle is refused.

    with tilewright.context.use(tilewright.Context(bundle=tilewright.bundle.load("qwen3-8b-h200"))):
        d = tilewright.gemm(a, weight.T)

TILEWRIGHT_BUNDLE=qwen3-8b-h200 does so for a whole process.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.bundle.closed import Bundle as Bundle
from tilewright.bundle.closed import load as _load


def load(folder: str | Path) -> Bundle:
    """The bundle in a folder. Its libraries are checked, and loaded when a call needs them.

    Raises BundleError if the folder holds no bundle, or one of another release or of other sources of
    kernels, or if a library is missing or damaged; UnreadableFileError if its `bundle.json` is damaged.
    """
    return _load(Path(folder))
