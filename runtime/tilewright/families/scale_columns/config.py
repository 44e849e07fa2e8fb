"""One `scale_columns` kernel: it differs in its target alone."""

from __future__ import annotations

from tilewright.configurations.shared import MoverConfig, ThreadsFacts

CONFIG, FACTS = MoverConfig, ThreadsFacts
