"""The meaning of a C++ text for the compiler: the text without comments and layout.

Source keys of records are digests of it. So records of compiled and run kernels stay current if a comment, a
line break or the place of a header changes. Host keys are digests of what is left of it without the functions
that only a GPU runs.
"""

from __future__ import annotations

import re

# Raw strings, strings, characters; then comments. A digit separator may begin what looks like a character:
# then the rest of its line may keep a comment, which costs a new key and nothing else.
_LITERAL = rb'R"(?P<end>\w*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|' + rb"'(?:\\.|[^'\\\n])*'"
_TOKEN = re.compile(rb"(?P<literal>" + _LITERAL + rb")|//[^\n]*|/\*.*?\*/", re.DOTALL)
_HELD = re.compile(rb"\0(\d+)\0")
_SPACES = re.compile(rb"[ \t\r\n\f\v]+")
_AROUND = re.compile(rb" ?([(){}\[\];,]) ?")  # no two of them make another token
_PARTS = re.compile(
    rb"(?P<literal>" + _LITERAL + rb")|__host__ __device__|(?P<device>\b__(?:device|global)__)|[{};\n]",
    re.DOTALL,
)
_ENDS = (b"{", b"}", b";", b"\n")  # of a statement


def meaning(text: bytes) -> bytes:
    """The text with no comments, one space at most between tokens, and a line for each directive."""
    literals: list[bytes] = []

    def hold(match: re.Match[bytes]) -> bytes:
        literal = match["literal"]
        if literal is None:
            return b" "
        literals.append(literal)
        return b"\0%d\0" % (len(literals) - 1)

    parts: list[bytes] = []  # directives, and what stands between two of them
    between = b""
    for raw in (*_TOKEN.sub(hold, text).replace(b"\\\n", b" ").split(b"\n"), b"#"):
        line = raw.strip()
        if not line.startswith(b"#"):
            between += line + b" "
            continue
        code = _AROUND.sub(rb"\1", _SPACES.sub(b" ", between).strip())
        parts += [code, _SPACES.sub(b" ", line)]  # a space may mean something there: `#define F (x)`
        between = b""
    return _HELD.sub(lambda match: literals[int(match[1])], b"\n".join(filter(None, parts)))


def host_meaning(text: bytes) -> bytes:
    """The meaning of a text without its `__device__` and `__global__` functions.

    A function is left out from the beginning of its statement to the brace that closes the first one opened,
    or to the semicolon. So the rest of a constructor that initialises members in braces is kept: more may be
    kept than the host's code, never less. A text whose braces do not balance (because of an `#if`) is kept
    whole.
    """
    whole = meaning(text)
    kept: list[bytes] = []
    decided = 0  # where the text begins that is neither kept nor left out yet
    statement = 0  # where the current statement begins
    left_out = False  # it is a function of the device
    depth = balance = 0  # of braces: in that function, in the text
    for part in _PARTS.finditer(whole):
        token = part[0]
        balance += (token == b"{") - (token == b"}")
        if part["device"]:
            left_out = True
        if not left_out:
            statement = part.end() if token in _ENDS else statement
            continue
        depth += (token == b"{") - (token == b"}")
        if depth <= 0 and token in _ENDS[1:]:
            kept.append(whole[decided:statement])
            decided = statement = part.end()
            left_out, depth = False, 0
    return whole if balance or depth else b"".join([*kept, whole[decided:]])
