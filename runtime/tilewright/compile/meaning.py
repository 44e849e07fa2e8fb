"""The meaning of a C++ text for the compiler: the text without comments and layout.

Source keys of records are digests of it. So records of compiled and run kernels stay current if a comment, a
line break or the place of a header changes.
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
