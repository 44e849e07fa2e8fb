"""The `mqa_logits` family at run time: logits of an indexer, for ranges of keys and for pages of a cache."""

OPS = ("mqa_logits", "paged_mqa_logits", "paged_mqa_schedule")
