"""A config.json of a model, with changed fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from model_files import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(model: dict[str, Any], **fields: Any) -> Path:
        path = tmp_path / "config.json"
        path.write_text(json.dumps({**model, **fields}))
        return path

    return write
