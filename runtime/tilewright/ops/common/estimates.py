"""What a cost model answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one launch, and what they are made of."""

    seconds: float
    waves: int  # tiles (or parts of tiles) that the busiest SM works through
    bound: str  # what the main loop waits for most: math, fill, hbm or power
    main_loop: float
    overhead: float
