"""Words that kernels get as numbers: an enum of C, whose values follow from the order of the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Codes:
    """A word's code is its place among `words`.

    Its name in C is `prefix`, an underscore, and the word in capitals. In the header (`headers`), `notes`
    follow words, `above` stands in lines of its own before a word.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        *,
        prefix: str = "",
        text: str = "",
        notes: Mapping[str, str] | None = None,
        above: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name  # of the enum in C
        self.words = tuple(words)
        self.prefix = prefix or name.upper()
        self.text = text
        self.notes = notes or {}
        self.above = above or {}
        if unknown := sorted((self.notes.keys() | self.above.keys()) - set(self.words)):
            raise ValueError(f"{name} has notes about {', '.join(unknown)}, which it has not")

    def __getitem__(self, word: str) -> int:
        """The code of a word. Raises ValueError if the enum has no such word."""
        return self.words.index(word)
