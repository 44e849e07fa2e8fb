"""Numbers on a device, for kernels that read them there: made once, and kept."""

from __future__ import annotations

import math

import torch

_MOST = 1024
# With what a stream waits for, so that it finds one filled.
_kept: dict[tuple[torch.device, float], tuple[torch.Tensor, torch.cuda.Event | None]] = {}


def constant(value: float, device: torch.device) -> torch.Tensor:
    """One float32 on the device, for any stream. One made in a graph's capture is filled when the graph runs,
    and is the graph's.

    Not for what torch.compile calls: memory may then be of a graph's pool without a capture.
    """
    if device.type != "cuda":
        return _find(value, device)
    with torch.cuda.device(device):
        return _make(value, device) if torch.cuda.is_current_stream_capturing() else _find(value, device)


def _find(value: float, device: torch.device) -> torch.Tensor:
    found, filled = _kept.get((device, value), (None, None))
    if found is not None:
        if filled is not None:  # to ask whether it is would end captures of other threads
            torch.cuda.current_stream().wait_event(filled)
        return found
    made = _make(value, device)
    if not math.isnan(value) and value != 0:  # NaN is never found again; 0 and -0 are one key
        if device.type == "cuda":
            filled = torch.cuda.Event()
            filled.record()
        if len(_kept) >= _MOST:
            _kept.pop(next(iter(_kept)), None)
        _kept[device, value] = (made, filled)
    return made


def _make(value: float, device: torch.device) -> torch.Tensor:
    return torch.full((1,), value, dtype=torch.float32, device=device)
