"""Scales of weights in the layout of block-scaled tensor cores: converted once, and kept.

A conversion is found again by the memory of the scales, how they lie in it, and the number of writes that
torch has counted (`Tensor._version`): after a write through the tensor or a view of it they are converted
anew. torch counts no write through `Tensor.data`, DLPack or a pointer: a program that writes so calls
`forget_scales`, or keeps nothing (`set_keep_scales`). Conversions of scales whose memory is gone are dropped
with the next one.

While a CUDA graph is captured nothing is kept or looked up: the graph converts what the scales hold when it
runs. Tensors of `torch.inference_mode`, whose writes torch does not count, are converted for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from tilewright.base.forking import fork_safe_lock
from tilewright.calls import fast_path
from tilewright.calls.custom_ops import needs_dispatcher

_lock = fork_safe_lock()


class _State:
    kept: dict[Hashable, tuple[StorageWeakRef, int, torch.Tensor]] = {}  # noqa: RUF012
    """By how scales lie: their memory, torch's count of writes, and what they became."""
    keeps = True


def set_keep_scales(enabled: bool) -> None:
    """Whether scales of weights are converted once, as by default, or for each call."""
    _State.keeps = enabled
    if not enabled:
        forget_scales()


def forget_scales() -> None:
    """Forgets all conversions: scales of weights are converted anew when they are next used."""
    with _lock:
        _State.kept = {}


def kept(
    scales: torch.Tensor,
    options: Hashable,
    convert: Callable[[], torch.Tensor],
    check: Callable[[torch.Tensor], None],
) -> torch.Tensor:
    """The result of `convert` for these scales, which is kept for later calls with the same `options`.
    `check` raises if a result must not be kept."""
    if not _keeps(scales):
        return convert()
    storage = scales.untyped_storage()
    # A weak reference keeps the storage's object, not its memory, so no other object gets its address.
    memory = StorageWeakRef(storage)
    key = (memory.cdata, scales.data_ptr(), scales.dtype, scales.shape, scales.stride(), options)
    version = scales._version
    with _lock:
        entry = _State.kept.get(key)
    if entry is not None and entry[1] == version and not entry[0].expired():
        return entry[2]
    converted = convert()
    check(converted)
    if converted.is_cuda:
        torch.cuda.current_stream(converted.device).synchronize()  # once, so that any stream may read it
    with _lock:
        living = {key: entry for key, entry in _State.kept.items() if not entry[0].expired()}
        _State.kept = {**living, key: (memory, version, converted)}
    return converted


def _keeps(scales: torch.Tensor) -> bool:
    if not _State.keeps or fast_path.traced() or needs_dispatcher(scales) or scales.is_inference():
        return False
    return not (scales.is_cuda and torch.cuda.is_current_stream_capturing())
