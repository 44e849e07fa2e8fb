"""`requires:` of a spec: which releases of tilewright can read it."""

from __future__ import annotations

from tilewright_generator import __version__, nodes
from tilewright_generator.errors import Faults

KEY = "requires"
_HOW = 'write releases as pip does, in quotes: ">=0.2", ">=0.2,<1"'


def met(document: nodes.Mapping, faults: Faults) -> bool:
    """Whether this tilewright is one that the spec asks for. Where it is not, that is the spec's only fault:
    what else is wrong with it, only a newer one can tell."""
    entry = document.entries.get(KEY)
    if entry is None or isinstance(entry.value, nodes.Unreadable):
        return True
    # 20 ms that only specs with this key pay.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415

    text = entry.value.value if isinstance(entry.value, nodes.Scalar) else None
    try:
        if not isinstance(text, str) or not text.strip():
            raise InvalidSpecifier
        specifier = SpecifierSet(text)
    except InvalidSpecifier:
        faults.add(entry.value.position, f"{KEY}: {_HOW}")
        return True
    if specifier.contains(__version__, prereleases=True):
        return True
    faults.add(entry.value.position, f"this spec needs tilewright {specifier}, and this is {__version__}")
    return False
