"""How much a spec and a template may hold and stand for.

A project's specs come from branches that nobody has read yet, so reading one ends soon, whatever it holds.
The limits count work and never the clock: a spec is accepted everywhere or nowhere. A spec with 60,000 groups
of one kernel each, 6.5 MB, is within all of them. Together they keep `tilewright check` below 20 s of
processor time and 1 GB of memory for any spec and any template.

docs/specs.md lists these limits, and `tilewright.base.reading` has those of every file: bytes and depth.
"""

from __future__ import annotations

MOST_VALUES = 2_000_000
"""Values that a spec stands for: each as often as aliases, merge keys and `use:` repeat it. 60,000 groups of
eight fields that merge ten more are 1.2 million; a value takes about 3 us and 250 bytes."""

MOST_KERNELS = 100_000
"""Combinations that all groups of a spec multiply out to; a kernel takes 60 us to check and 10 KB."""

MOST_FRAGMENTS = 10_000
"""Fragments of `defaults:`; a spec of ours has a handful."""

MOST_EXCLUDE_TESTS = 5_000_000
"""Comparisons of a combination with an item of `exclude:`, for all groups of a spec; each takes 1 us."""

MOST_FAULTS = 200
"""Faults of a file that are printed; the others are counted. A suggestion takes up to 1 ms."""

MOST_NEIGHBOURS_ASKED, MOST_NEIGHBOURS_OF_SPEC = 2_000, 20_000
"""Configurations that rules are asked about to find legal values near a rejected one: for a field, and for
all faults of a spec. Each takes 30 us."""

MOST_BROKEN_LINES = 100
"""Lines with broken YAML that are reported: for each the parser begins anew."""

MOST_OPEN_BRACKETS = 1_000
"""Flow brackets that may be open at once in what libyaml parses in one go: for each token it looks at every
level, and 230,000 levels took it minutes."""

MOST_PARSED_BYTES = 32 << 20
"""Bytes that libyaml parses of one spec, again for each broken line, at 20 MB/s."""

MOST_EXPLAINED_BYTES = 1 << 20
"""Bytes that PyYAML's own parser reads, too, for its better messages, at 0.3 MB/s. Beyond them the messages
are libyaml's."""

MOST_TEMPLATE_BYTES = 256 << 10
"""Bytes of a template's text. The committed templates have 4 KB at most."""

MOST_TEMPLATE_NODES = 2_000
"""Parts of a template's syntax; ours have 200 at most. Python takes 0.1 us to run one."""

MOST_TEMPLATE_DEPTH = 40
"""How deep a template's syntax is nested. Python refuses to compile 20 nested loops, and Jinja takes seconds
for 300 nested filters."""

MOST_LOOPS = 4
"""Loops of a template within each other."""

MOST_RENDERED_NODES, MOST_RENDERED_PER_ITEM = 4_000, 100
"""Parts of a template that one rendering runs: those of a loop's body as often as it runs, and those of what
is included. The second is for each kernel in a table."""

MOST_SOURCE, MOST_SOURCE_PER_ITEM = 128 << 10, 2 << 10
"""Characters that one rendering makes, intermediate texts included; a source has 4 KB. The second is for each
kernel in a table."""

MOST_MODULE_BYTES = 400 << 20
"""Bytes of all files of a module. 60,000 kernels take 240 MB."""
