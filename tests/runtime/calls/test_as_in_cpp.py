"""What Python states beside the C++ of a launcher: its statuses, and which tensors overlap."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import tvm_ffi
from host_programs import FOLDER, compiled
from hypothesis import given
from hypothesis import strategies as st

from tilewright.base import paths
from tilewright.calls.memory import overlap
from tilewright.libraries import library

INCLUDE = paths.include_dir() / "tilewright"
SOURCE = """
#include "tilewright/binding.hpp"

static bool both(tvm::ffi::AnyView x, tvm::ffi::AnyView y) {
  return tilewright::overlap(tilewright::tensor_of(x, "x"), tilewright::tensor_of(y, "y"));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(both, both)
"""


def test_statuses_are_those_of_launcher_hpp() -> None:
    text = (INCLUDE / "launcher.hpp").read_text()
    (body,) = re.findall(r"^enum Status : int64_t {\n(.*?)^};$", text, re.MULTILINE | re.DOTALL)
    stated = {
        name.upper(): int(value) for name, value in re.findall(r"^  k(\w+) = (-?\d+),", body, re.MULTILINE)
    }
    assert len(stated) == len(body.splitlines())
    assert stated == {name: getattr(library, name) for name in stated}
    (most,) = re.findall(r"^constexpr int64_t kMostOperands = (\d+);$", text, re.MULTILINE)
    assert int(most) == library.MOST_OPERANDS


@pytest.fixture(scope="module")
def binding() -> Any:
    """The `overlap` of binding.hpp."""
    ffi = Path(tvm_ffi.__file__).parent
    made = compiled(
        "overlap.so", ["overlap.cc"],
        [
            "-std=c++17", "-O1", "-Wall", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared",
            "-DTILEWRIGHT_DEVICE_TYPE=kDLCPU", f"-I{paths.include_dir()}", f"-isystem{ffi / 'include'}",
        ],
        files={"overlap.cc": SOURCE}, link=[f"-L{ffi / 'lib'}", "-ltvm_ffi", "-Wl,-Bsymbolic"], folder=FOLDER,
    )  # fmt: skip
    return tvm_ffi.load_module(str(made))


ROOM = torch.zeros(4096, dtype=torch.int16)
DIMENSIONS = st.tuples(st.integers(0, 5), st.integers(0, 24))  # an extent and its stride


@st.composite
def views(draw: st.DrawFn) -> torch.Tensor:
    dimensions = draw(st.lists(DIMENSIONS, min_size=1, max_size=4)) + [(1, 1)] * draw(
        st.sampled_from([0, 0, 6])
    )
    sizes, strides = zip(*dimensions, strict=True)
    view = ROOM.as_strided(sizes, strides, draw(st.integers(0, 96)))
    return view.view(torch.bfloat16) if draw(st.booleans()) else view


@given(x=views(), y=views())
def test_overlap_is_that_of_binding_hpp(binding: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    assert overlap(x, y) == binding.both(x, y)


def test_both_know_what_overlaps(binding: Any) -> None:
    wide = ROOM[:64].view(4, 16)
    for x, y, expected in (
        (wide[:, :8], wide[:, 8:], False), (wide[:, :9], wide[:, 8:], True), (wide[::2], wide[1::2], False),
        (wide[:, :8], ROOM[12:].as_strided((3, 8), (16, 1)), True),  # its rows end in the next ones
        (wide[(None,) * 7][..., :8], wide[:, 8:], True),  # of more than eight dimensions nothing is known
    ):  # fmt: skip
        assert overlap(x, y) is binding.both(x, y) is expected
