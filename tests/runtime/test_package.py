"""What `import tilewright` offers: names that are looked up when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tilewright


def test_everything_is_listed() -> None:
    names = {"gemm", "mm_nvfp4", "quantize_mxfp8", "plan", "tune", "errors", "scale_factors", "Registry"}
    assert names <= set(dir(tilewright))
    assert tilewright.errors.ArgumentError.__mro__[1] is tilewright.TilewrightError
    assert all(hasattr(tilewright, name) for name in names)


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(AttributeError, match="module 'tilewright' has no attribute 'gem'") as caught:
        tilewright.gem  # noqa: B018 (the lookup is what is tested)
    assert (caught.value.name, caught.value.obj) == ("gem", tilewright)  # what Python suggests another by


def test_without_torch_an_op_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import tilewright\n"
        "tilewright.errors, tilewright.Registry\n"
        "try:\n    tilewright.gemm\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "tilewright.gemm needs torch: pip install 'tilewright[torch]'\n"
