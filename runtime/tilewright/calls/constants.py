"""Numbers on a device, for kernels that read them there: made once, and kept."""

from __future__ import annotations

import math

import torch

from tilewright.base.forking import fork_safe_lock

_MOST = 1024
# With the stream that filled it, and what others wait for.
_Filled = tuple[torch.cuda.Stream, torch.cuda.Event]
_lock = fork_safe_lock()
_kept: dict[tuple[torch.device, float], tuple[torch.Tensor, _Filled | None]] = {}


def constant(value: float, device: torch.device) -> torch.Tensor:
    """A float32 on the device, for any stream. A constant that is made while a graph is captured is filled
    when the graph runs, and belongs to the graph.

    Not for functions that torch.compile calls: their memory may be of a graph's pool without a capture.
    """
    if device.type != "cuda":
        return _find(value, device)
    with torch.cuda.device(device):
        return _make(value, device) if torch.cuda.is_current_stream_capturing() else _find(value, device)


def _find(value: float, device: torch.device) -> torch.Tensor:
    key = (device, value)
    with _lock:
        number, filled = _kept.get(key, (None, None))
    if number is not None:
        if filled is not None and filled[0] != (stream := torch.cuda.current_stream()):
            stream.wait_event(filled[1])  # to ask whether it has happened would end captures of other threads
            number.record_stream(stream)  # its memory is not reused before this stream is done with it
        return number
    number = _make(value, device)
    if not math.isnan(value) and value != 0:  # NaN is never found again; 0 and -0 are one key
        if device.type == "cuda":
            filled = (torch.cuda.current_stream(), torch.cuda.Event())
            filled[1].record()
        with _lock:
            if len(_kept) >= _MOST:
                del _kept[next(iter(_kept))]
            _kept[key] = (number, filled)
    return number


def _make(value: float, device: torch.device) -> torch.Tensor:
    return torch.full((1,), value, dtype=torch.float32, device=device)
