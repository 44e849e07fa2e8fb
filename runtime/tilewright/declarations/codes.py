"""Words that kernels get as numbers: an enum of C, whose values follow from the order of the words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


class Codes:
    """A word's code is its place among `words`.

    Its name in C is `prefix`, an underscore, and the word in capitals. `notes` stand behind words, `above` in
    lines of their own before a word.
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
        self._notes = notes or {}
        self._above = above or {}
        if unknown := sorted((self._notes.keys() | self._above.keys()) - set(self.words)):
            raise ValueError(f"{name} has notes about {', '.join(unknown)}, which it has not")

    def __getitem__(self, word: str) -> int:
        """Raises ValueError where there is no such word."""
        return self.words.index(word)

    def in_c(self) -> Iterator[str]:
        """The lines of its definition."""
        yield from _comments(self.text)
        yield f"typedef enum {self.name} {{"
        runs: list[list[str]] = []  # of words whose notes begin in one column
        for word in self.words:
            if not runs or word in self._above or word not in self._notes:
                runs.append([])
            runs[-1].append(word)
        for run in runs:
            if above := self._above.get(run[0]):
                yield from [""] * (run is not runs[0])
                yield from (f"  {line}" for line in _comments(above))
            members = {word: f"  {self.prefix}_{word.upper()} = {self[word]}," for word in run}
            width = max((len(members[word]) for word in run if word in self._notes), default=0)
            for word, member in members.items():
                note = self._notes.get(word)
                yield f"{member.ljust(width)}  // {note}" if note else member
        yield f"}} {self.name};"


def _comments(text: str) -> list[str]:
    return [f"// {line}" for line in text.strip().splitlines()]
