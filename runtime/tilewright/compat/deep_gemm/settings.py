"""DeepGEMM's settings. The alignment of groups is read by its functions; the others change nothing here.

Tilewright's kernels take extents at run time, so there are no compiled dimensions; which tiles and how many
thread blocks a launch has, selection decides. Those settings are kept and answered, so that programs which
set them run.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.errors import ArgumentError

LEAST_ALIGNMENT = 32  # rows: below it, a tile would hold rows of too many groups
RECOMMENDED_ALIGNMENTS = (32, 64, 128)  # rows of the tiles that DeepGEMM has for SM120 (pull request 324)
SM120 = 12  # major number of the compute capability


@dataclass(slots=True)
class _Settings:
    alignment: int = 128  # rows (or elements of k) at whose multiples a group begins
    sms: int = 0  # 0: all
    tensor_core_percent: int = 0  # 0: not set
    pdl: bool = False
    ignore_compile_dims: bool = False
    block_multiples: tuple[int, int] = (1, 1)


_settings = _Settings()


def get_mk_alignment_for_contiguous_layout() -> int:
    """Rows (or elements of k) at whose multiples groups of a contiguous layout begin."""
    return _settings.alignment


def set_mk_alignment_for_contiguous_layout(new_value: int) -> None:
    """Raises ArgumentError where it is no multiple of 32."""
    if new_value < LEAST_ALIGNMENT or new_value % LEAST_ALIGNMENT:
        raise ArgumentError("new_value", f"it is {new_value}; expected a multiple of {LEAST_ALIGNMENT}")
    _settings.alignment = new_value


def get_theoretical_mk_alignment_for_contiguous_layout(expected_m: int | None = None) -> int:
    """The alignment that DeepGEMM recommends for groups of which `expected_m` rows are expected: on GPUs of
    12.x the least of 32, 64 and 128 that holds them, on others 128.

    Raises ArgumentError where `expected_m` is negative.
    """
    if expected_m is not None and expected_m < 0:
        raise ArgumentError("expected_m", f"it is {expected_m}; expected 0 or more rows")
    if expected_m is None or not _is_sm120():
        return RECOMMENDED_ALIGNMENTS[-1]
    fitting = (alignment for alignment in RECOMMENDED_ALIGNMENTS if expected_m <= alignment)
    return next(fitting, RECOMMENDED_ALIGNMENTS[-1])


def _is_sm120() -> bool:
    """Whether the current GPU is one of 12.x."""
    return bool(torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == SM120)


def get_num_sms() -> int:
    """The number that was set, else the multiprocessors of the current GPU."""
    return _settings.sms or torch.cuda.get_device_properties().multi_processor_count


def set_num_sms(new_num_sms: int) -> None:
    """Kept; kernels take the GPU. Raises ArgumentError beyond what the GPU has."""
    held = torch.cuda.get_device_properties().multi_processor_count
    if not 0 <= new_num_sms <= held:
        raise ArgumentError("new_num_sms", f"it is {new_num_sms}; expected 0 to {held}")
    _settings.sms = new_num_sms


def get_tc_util() -> int:
    """The number that was set, else 100."""
    return _settings.tensor_core_percent or 100


def set_tc_util(new_tc_util: int) -> None:
    """Kept. Raises ArgumentError where it is no percentage."""
    if not 0 <= new_tc_util <= 100:
        raise ArgumentError("new_tc_util", f"it is {new_tc_util}; expected 0 to 100")
    _settings.tensor_core_percent = new_tc_util


def get_pdl() -> bool:
    """The value that was set. It has no effect: each kernel's launch lets the next kernel start early."""
    return _settings.pdl


def set_pdl(new_enable_pdl: bool) -> None:
    """Keeps the value, which has no effect."""
    _settings.pdl = new_enable_pdl


def set_ignore_compile_dims(new_value: bool) -> None:
    """Kept: no dimension is compiled in."""
    _settings.ignore_compile_dims = new_value


def set_block_size_multiple_of(new_value: int | tuple[int, int]) -> None:
    """Kept: selection decides on tiles."""
    _settings.block_multiples = new_value if isinstance(new_value, tuple) else (new_value, new_value)
