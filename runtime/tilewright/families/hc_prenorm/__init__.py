"""The `hc_prenorm` family at run time: problem, tactics, selection, and the op itself."""

OPS = ("hc_prenorm",)
