"""Selection finds kernels by the text of their rows, which leave out some fields that are False."""

from __future__ import annotations

import pytest

from tilewright.declarations import catalog
from tilewright.declarations.table import Rows
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize("name", catalog.names())
def test_rows_state_every_decisive_field(name: str, registry: Registry) -> None:
    """Each kernel is among those whose rows state its own values."""
    decisive = family_of(name).decisive
    for record in registry.kernels(name):
        rows = Rows([(registry.table_of(record.name), [record.name])])
        stated = rows.stating({field: record.config[field] for field in decisive})
        assert [kernel.name for kernel in stated] == [record.name]
