"""Names that C++ takes."""

from __future__ import annotations

import re

CPP_KEYWORD = re.compile(
    "alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|char|char16_t|char32_t|"
    "char8_t|class|co_await|co_return|co_yield|compl|concept|const|const_cast|consteval|constexpr|"
    "constinit|continue|decltype|default|delete|do|double|dynamic_cast|else|enum|explicit|export|extern|"
    "false|float|for|friend|goto|if|inline|int|long|mutable|namespace|new|noexcept|not|not_eq|nullptr|"
    "operator|or|or_eq|private|protected|public|register|reinterpret_cast|requires|return|short|signed|"
    "sizeof|static|static_assert|static_cast|struct|switch|template|this|thread_local|throw|true|try|"
    "typedef|typeid|typename|union|unsigned|using|virtual|void|volatile|wchar_t|while|xor|xor_eq"
)
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def is_cpp_name(name: str) -> bool:
    """Whether a name can be declared: an identifier of ASCII letters, digits and underscores, no keyword."""
    return _IDENTIFIER.fullmatch(name) is not None and CPP_KEYWORD.fullmatch(name) is None
