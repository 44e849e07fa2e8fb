"""Settings of all tests."""

from __future__ import annotations

import hypothesis

# A loaded machine is slow: no example has a time by which it must be done.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")
