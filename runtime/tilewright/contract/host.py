"""Kernels that run on the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilewright import context as contexts
from tilewright.architectures.device import H200, DeviceProperties
from tilewright.context import Context
from tilewright.libraries.registry import Registry


@contextmanager
def host_kernels(generated: Path, device: DeviceProperties = H200) -> Iterator[Context]:
    """Ops run the kernels below `generated` on tensors of the CPU, chosen as if on `device`.

    The kernels are the host compiler's (`compiler: host` in their rows). The first call builds them.
    """
    with contexts.use(Context(Registry(generated), described=device)) as context:
        yield context
