"""The GPUs of `tilewright tune`: those of this machine, or those of a Ray cluster."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from tilewright_generator.cli.tuning_settings import gpu_indices
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.tools.sharding.engine import Engine

_TERMINATED = 128 + signal.SIGTERM


@dataclass(frozen=True)
class Place:
    """The place of measuring: GPUs of one kind, and an engine over them."""

    engine: Engine
    device: DeviceProperties
    driver: str | None
    name: str

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of_ray(cls, address: str | None) -> Place:
        """Raises RayMissingError."""
        from tilewright.tools.sharding import ray_engine  # noqa: PLC0415 (an optional extra)
        from tilewright.tools.sharding.engine import PATIENCE_SECONDS  # noqa: PLC0415

        engine = ray_engine.connect(address, patience=PATIENCE_SECONDS)
        device, driver = ray_engine.gpu(engine)
        return cls(engine, device, driver, f"{device.name}s of Ray")

    @classmethod
    def of_here(cls, named: str | None, current: Context) -> Place:
        """Raises UsageError for GPUs that there are not, or that are not alike."""
        from tilewright.tools.sharding.engine import Local  # noqa: PLC0415

        chosen, device = _gpus(named, current)
        return cls(Local(chosen), device, None, f"{device.name} {', '.join(map(str, chosen))}")

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Ends the workers whatever happens; SIGTERM comes as Ctrl-C does, with an exit code of its own."""

        def terminate(*_: Any) -> None:
            raise SystemExit(_TERMINATED)

        previous = signal.signal(signal.SIGTERM, terminate)
        try:
            yield
        except KeyboardInterrupt:
            raise click.Abort from None
        finally:
            self.engine.close()
            signal.signal(signal.SIGTERM, previous)


def _gpus(named: str | None, current: Context) -> tuple[list[int], DeviceProperties]:
    """The indices of the GPUs that are asked for (else of all like the first), and their one kind."""
    import torch  # noqa: PLC0415

    count = torch.cuda.device_count()
    chosen = list(range(count)) if named is None else gpu_indices(named)
    if not chosen or not set(chosen) <= set(range(count)):
        raise UsageError(f"--gpus {named}: expected numbers from 0 to {count - 1}, the GPUs of this machine")
    first = current.device(chosen[0])
    different = [index for index in chosen if current.device(index) != first]
    if different and named is not None:
        raise UsageError(
            f"--gpus {named}: {different[0]} is {current.device(different[0]).name}, not {first.name}"
        )
    for index in different:
        note(f"GPU {index} is left out: it is {current.device(index).name}, not {first.name}")
    return [index for index in chosen if index not in different], first
