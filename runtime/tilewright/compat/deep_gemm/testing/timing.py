"""Seconds of GPU work."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tilewright import context as contexts

FLUSH_BYTES = 8_000_000_000  # written before each call: nothing stays in L2, and the GPU's power settles


def bench(
    fn: Callable[[], Any], num_warmups: int = 5, num_tests: int = 10, high_precision: bool = False
) -> float:
    """Mean seconds of a call, by events around `num_tests` of them.

    `high_precision`: a long kernel runs before, so that all calls are enqueued by the time they start.
    """
    torch.cuda.synchronize()
    torch.empty(256_000_000, dtype=torch.int8, device="cuda").zero_()
    for _ in range(num_warmups):
        fn()
    if high_precision:
        torch.cuda._sleep(20_000_000)  # cycles: about 10 ms
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(num_tests):
        fn()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / num_tests / 1e3


def bench_kineto(
    fn: Callable[[], Any],
    kernel_names: str | tuple[str, ...],
    num_tests: int = 30,
    suppress_kineto_output: bool = False,
    trace_path: str | None = None,
    flush_l2: bool = True,
    with_multiple_kernels: bool = False,
    barrier: Callable[[], Any] | None = None,
) -> float | tuple[float, ...]:
    """Mean seconds that a call's kernels take, as torch's profiler sees them, for each of `kernel_names`.

    A name is part of a kernel's. One that is part of tilewright's kernels alone, or of none (it is
    DeepGEMM's: ours have other names), means all of tilewright's that a call runs, together. With
    DG_USE_NVIDIA_TOOLS=1 in the environment nothing is profiled, and every name has 1 second: another tool is
    watching.

    Args:
        num_tests: calls that count. As many calls before them warm up.
        suppress_kineto_output: what is printed meanwhile is not seen.
        trace_path: of a file for the profile's trace.
        flush_l2: memory of `FLUSH_BYTES` is written before each call.
        with_multiple_kernels: a name may be part of the names of several kernels; else that is an error.
        barrier: called before each call, after a pause of 10 ms.
    """
    names = (kernel_names,) if isinstance(kernel_names, str) else kernel_names
    if os.environ.get("DG_USE_NVIDIA_TOOLS", "0") != "0":
        seconds = (1.0,) * len(names)
    else:
        with _silence() if suppress_kineto_output else contextlib.nullcontext():
            profile = _profile(fn, num_tests, flush_l2, barrier)
            if trace_path is not None:
                profile.export_chrome_trace(trace_path)
        kernels = [(event.key, event.self_device_time_total * 1e-6, event.count)
                   for event in profile.key_averages()]  # fmt: skip
        seconds = tuple(_seconds(name, kernels, num_tests, with_multiple_kernels) for name in names)
    return seconds[0] if isinstance(kernel_names, str) else seconds


def _profile(
    fn: Callable[[], Any], calls: int, flush_l2: bool, barrier: Callable[[], Any] | None
) -> torch.profiler.profile:
    fn()
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=schedule, acc_events=True) as profile:
        for _ in range(2):
            for _ in range(calls):
                if flush_l2:
                    torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda").zero_()
                if barrier is not None:
                    torch.cuda._sleep(20_000_000)
                    barrier()
                fn()
            torch.cuda.synchronize()
            profile.step()
    return profile


def _seconds(name: str, kernels: Sequence[tuple[str, float, int]], calls: int, several: bool) -> float:
    """The seconds of a call. `kernels`: name, seconds and launches of each kernel in a profile of `calls`
    calls."""
    ours = _own_names()
    matching = [kernel for kernel in kernels if name in kernel[0]]
    if all(key in ours for key, *_ in matching):
        return sum(seconds for key, seconds, _ in kernels if key in ours) / calls
    if len(matching) > 1 and not several:
        raise AssertionError(
            f"{name!r} is part of {len(matching)} kernels' names: {[key for key, *_ in matching]}"
        )
    return sum(seconds for _, seconds, _ in matching) / sum(launches for *_, launches in matching)


@functools.cache
def _own_names() -> frozenset[str]:
    """The names of all kernels of the dispatch tables, as profilers show them."""
    tables = contexts.current().registry.tables.values()
    return frozenset(name for table in tables for name in table)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing is printed: by Python, nor by a library that writes to the descriptors."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.ExitStack() as kept:  # noqa: PTH123
        for descriptor in (1, 2):
            copy = os.dup(descriptor)
            kept.callback(os.close, copy)
            kept.callback(os.dup2, copy, descriptor)
            os.dup2(nowhere.fileno(), descriptor)
        kept.enter_context(contextlib.redirect_stdout(nowhere))
        kept.enter_context(contextlib.redirect_stderr(nowhere))
        yield
