"""Tensors that a launcher takes: their types, strides, devices and addresses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from foreign_tensors import foreign
from host_launches import ABSENT, NUMBERS, PROBLEM, WHOLE, launcher, operands, plain

from tilewright.declarations.arguments import launchable, packed, struct
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.problem import OUTPUTS, Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.libraries.library import Library


def test_arguments_that_are_no_tensors(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library)
    with pytest.raises(TypeError, match="takes 12 arguments, not 3"):
        launch(a, b, d)
    with pytest.raises(TypeError, match="an operand is a int"):
        launch(3, b, None, d, *ABSENT, *NUMBERS)
    assert launch(a, None, None, d, *ABSENT, *NUMBERS) == -201


@pytest.mark.parametrize("which", ["a", "b", "c", "out", "bias"])
def test_tensors_of_another_type(library: Library, which: str) -> None:
    a, b, d = operands()
    tensors = {"a": a, "b": b, "c": d.clone(), "out": d, "bias": torch.zeros(24, dtype=torch.bfloat16)}
    launch = launcher(library, tensors)
    assert launch(*tensors.values(), *ABSENT[1:], *NUMBERS) == 0
    index = list(tensors).index(which)
    tensors[which] = tensors[which].half()
    assert launch(*tensors.values(), *ABSENT[1:], *NUMBERS) == -200 - index


@pytest.mark.parametrize(("types", "d"), [(types, d) for types, every in OUTPUTS.items() for d in every])
def test_tensors_of_every_type_are_launched(library: Library, types: tuple[str, str], d: str) -> None:
    """The kernel reads bytes and writes words within the tensors: only whether it is called is asked."""
    a, b = (torch.zeros(16, 16).to(dtype_of(name)) for name in types)
    out = torch.zeros(64, 64, dtype=dtype_of(d))
    tensors = (a[:8], b.t()[:, :8], out[:8, :8])
    problem = Problem(8, 8, 16, a=types[0], b=types[1], d=d)
    launch = launcher(
        library, dict(zip(("a", "b", "out"), tensors, strict=True)), Tactic("host_s8_tn"), problem
    )
    assert launch(tensors[0], tensors[1], None, tensors[2], *ABSENT, *NUMBERS) == 0


@pytest.mark.parametrize("which", ["a", "b", "out"])
def test_a_tensor_may_begin_behind_its_data(library: Library, which: str) -> None:
    """`byte_offset` of DLPack, as other frameworks use it: the address is the sum, and the sum is judged."""
    a, b, d = operands()
    tensors = {"a": a, "b": b, "out": d}
    launch = launcher(library, tensors)
    index = INTERFACE.names.index(which)

    def call(**others: object) -> int:
        given = {**tensors, **others}
        return launch(given["a"], given["b"], None, given["out"], *ABSENT, *NUMBERS)

    # The data that the offset is counted from holds other numbers, or nothing of this process.
    assert call(**{which: foreign(tensors[which], byte_offset=4096)}) == 0
    torch.testing.assert_close(d, a @ b, rtol=2**-7, atol=0.05)
    # `data` is aligned, and the first element is not; then the other way round.
    room = torch.zeros(tensors[which].numel() + 16, dtype=torch.bfloat16)
    start = -room.data_ptr() % 16 // 2
    shape = tensors[which].t().shape if which == "b" else tensors[which].shape
    for first, offset in ((start + 1, 2), (start + 8, 2)):
        view = room[first : first + tensors[which].numel()].view(shape)
        shifted = foreign(view.t() if which == "b" else view, byte_offset=offset)
        expected = -100 - index if first == start + 1 and which != "out" else 0
        assert call(**{which: shifted}) == expected


def test_operands_that_overlap_behind_their_data(library: Library) -> None:
    a, b, d = operands()
    room = torch.zeros(16 * 24 + 16 * 8, dtype=torch.bfloat16)
    a, d = room[: 16 * 8].view(16, 8), room[16 * 8 :].view(16, 24)
    launch = launcher(library, {"a": a, "b": b, "out": d})
    beside = foreign(d, byte_offset=2 * 16 * 8)  # its data are A's, and its elements are not
    assert launch(a, b, None, beside, *ABSENT, *NUMBERS) == 0
    inside = foreign(room[: 16 * 24].view(16, 24), byte_offset=2048)
    assert launch(a, b, None, inside, *ABSENT, *NUMBERS) == -1000 - 64 * INTERFACE.names.index("out")


def test_tensors_without_strides_are_contiguous(library: Library) -> None:
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d})
    packed = (foreign(a, strides=False), b, None, foreign(d, strides=False))
    assert launch(*packed, *ABSENT, *NUMBERS) == 0
    torch.testing.assert_close(d, a @ b, rtol=2**-7, atol=0.05)
    turned = foreign(b.t().contiguous().view(8, 24), strides=False)  # [8, 24] in order: not as B was planned
    assert launch(a, turned, None, d, *ABSENT, *NUMBERS) == -201


@pytest.mark.parametrize("which", ["a", "b", "out"])
def test_a_tensor_of_another_device(library: Library, which: str) -> None:
    """One of the same type has another number: its address means nothing to the planned one."""
    a, b, d = operands()
    tensors = {"a": a, "b": b, "out": d}
    launch = launcher(library, tensors)
    tensors[which] = foreign(tensors[which], device=1)
    index = INTERFACE.names.index(which)
    status = launch(tensors["a"], tensors["b"], None, tensors["out"], *ABSENT, *NUMBERS)
    assert status == -200 - index


def test_addresses_are_judged_at_every_call(library: Library) -> None:
    launch = plain(library)
    a, b, d = operands()
    shifted = torch.empty(16 * 8 + 1, dtype=torch.bfloat16)[1:].view(16, 8)
    assert launch(shifted, b, None, d, *ABSENT, *NUMBERS) == -100
    shifted = torch.empty(24 * 8 + 1, dtype=torch.bfloat16)[1:].view(24, 8)
    assert launch(a, shifted.t(), None, d, *ABSENT, *NUMBERS) == -101
    whole = torch.empty(16 * 24 + 8, dtype=torch.bfloat16)
    inside, out = whole[:128].view(16, 8), whole[8:].view(16, 24)
    written = 64 * INTERFACE.names.index("out")
    assert launch(inside, b, None, out, *ABSENT, *NUMBERS) == -1000 - written
    adding = launcher(library, {"a": a, "b": b, "c": d, "out": d})
    assert adding(a, b, d, d, *ABSENT, 1.0, 1.0, None) == 0
    shifted_c = whole[:384].view(16, 24)
    assert adding(a, b, shifted_c, out, *ABSENT, 1.0, 1.0, None) == -1002 - written


def test_c_at_the_place_of_d_with_other_strides_is_no_twin(library: Library) -> None:
    """Same address and rows at another distance: other elements of C lie where D is written."""
    a, b, _ = operands()
    room = torch.zeros(16 * 32, dtype=torch.bfloat16)
    c, d = room.view(16, 32)[:, :24], room[: 16 * 24].view(16, 24)
    launch = launcher(library, {"a": a, "b": b, "c": c, "out": d})
    assert launch(a, b, c, d, *ABSENT, 1.0, 1.0, None) == -1002 - 64 * 3
    batch = torch.zeros(2, 16, 24, dtype=torch.bfloat16)
    a, b = a.expand(2, 16, 8), b.expand(2, 8, 24)
    c = batch[:1].expand(2, 16, 24)  # one matrix for both
    launch = launcher(library, {"a": a, "b": b, "c": c, "out": batch}, problem=replace(PROBLEM, batch=2))
    assert launch(a, b, c, batch, *ABSENT, 1.0, 1.0, None) == -1002 - 64 * 3


def test_packed_operands_have_any_shape_and_no_gaps(library: Library) -> None:
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d, "scale_a": torch.ones(())})
    call = (a, b, None, d, None)
    assert launch(*call, torch.full((1, 1), 2.0), *ABSENT[2:], *NUMBERS) == 0
    torch.testing.assert_close(d, (2 * a.double() @ b.double()).bfloat16())
    assert launch(*call, torch.ones(2), *ABSENT[2:], *NUMBERS) == -205
    bias = torch.zeros(48, dtype=torch.bfloat16)
    launch = launcher(library, {"a": a, "b": b, "out": d, "bias": bias[:24]})
    assert launch(*call[:4], bias[24:], *ABSENT[1:], *NUMBERS) == 0
    assert launch(*call[:4], bias[::2], *ABSENT[1:], *NUMBERS) == -204


def test_strides_of_extents_of_1_mean_nothing(library: Library) -> None:
    a, b, d = operands(m=1)
    problem = replace(PROBLEM, m=1)
    launch = launcher(library, {"a": a.as_strided((1, 8), (5, 1)), "b": b, "out": d}, problem=problem)
    assert launch(a.as_strided((1, 8), (3, 1)), b, None, d, *ABSENT, *NUMBERS) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())


def test_tensors_without_memory(library: Library) -> None:
    a, b, d = operands()
    launch = plain(library)
    hollow = torch.zeros_like(a)
    hollow.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="operand 0 has no memory"):
        launch(hollow, b, None, d, *ABSENT, *NUMBERS)


def test_operands_without_elements_need_no_memory(library: Library) -> None:
    """torch gives them the address 0. They are contiguous whatever their shape."""
    a, b, d = operands()
    launch = launcher(library, {"a": a, "b": b, "out": d, "scale_a": torch.empty(0)})
    for scale in (torch.empty(0), torch.empty(2, 0)):
        assert launch(a, b, None, d, None, scale, *ABSENT[2:], *NUMBERS) == 0
    torch.testing.assert_close(d, (a.double() @ b.double()).bfloat16())


def test_the_batch_stride_of_one_matrix_is_0() -> None:
    """Frameworks set it to anything, and a tensor map takes no odd one."""
    a, b, d = operands()
    lie = {"a": a.as_strided((1, 16, 8), (5, 8, 1)), "b": b, "out": d}
    tensors = [lie.get(name) for name in INTERFACE.names]
    arguments = packed(INTERFACE, PROBLEM, WHOLE, 132)
    made = launchable(INTERFACE, PROBLEM, arguments, tensors=tensors, alignments={})
    assert struct(INTERFACE).from_buffer_copy(made.arguments).batch_stride_a == 0
