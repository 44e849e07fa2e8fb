"""The Jinja that templates may use: enough to write a source, and nothing that takes all time or memory.

What is not allowed here does not exist: a list of what is dangerous would never be whole. Templates have
`if`, `for`, `set`, `with` and `include`, comparisons, the filters and tests below, and no calls, methods or
arithmetic. What a rendering runs and makes is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from jinja2 import (
    BaseLoader,
    StrictUndefined,
    Template,
    TemplateSyntaxError,
    Undefined,
    meta,
    nodes,
    pass_context,
)
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from tilewright_generator import limits

_ALLOWED = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Tuple, nodes.List,
    nodes.Keyword, nodes.If, nodes.For, nodes.Assign, nodes.With, nodes.Include, nodes.CondExpr,
    nodes.Compare, nodes.Operand, nodes.Filter, nodes.Test, nodes.Getattr, nodes.Getitem, nodes.Call,
    nodes.BinExpr, nodes.UnaryExpr, nodes.Concat,
)  # fmt: skip
_TESTS = ("defined", "undefined", "none", "string", "in", "eq", "equalto", "==", "ne", "!=", "true", "false")
_COUNTED, _JOINED = "counted loop", "joined text"  # filters that no template can name


class Spent:
    """The steps and the output of one rendering so far."""

    def __init__(self, items: int) -> None:
        """`items`: how many kernels a table has."""
        self._nodes = limits.MOST_RENDERED_NODES + items * limits.MOST_RENDERED_PER_ITEM
        self._characters = limits.MOST_SOURCE + items * limits.MOST_SOURCE_PER_ITEM

    def run(self, count: int) -> None:
        """Count parts of a template that run."""
        self._nodes -= count
        if self._nodes < 0:
            raise SecurityError("it runs for too long: its loops or includes are too many")

    def make(self, characters: int) -> None:
        """Count characters before they are made."""
        self._characters -= characters
        if self._characters < 0:
            raise SecurityError("it makes too much text for a source")


class Names(list[str]):
    """A list that a template may iterate over and may not print: each print would be another text of that
    size."""

    def __str__(self) -> str:
        raise SecurityError("templates write a list by `for` or join")


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with fewer rights. `spent` is the work of the current rendering."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def __init__(self, loader: BaseLoader) -> None:
        super().__init__(
            loader=loader,
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            auto_reload=False,
            cache_size=-1,
        )
        # Every rendering would copy Jinja's own globals (range, lipsum, ...), of which templates need none.
        self.globals.clear()
        self.filters = {**FILTERS, _COUNTED: _counted, _JOINED: _joined}
        self.tests = {name: self.tests[name] for name in _TESTS}
        self.spent = Spent(0)
        self._sizes: dict[str | None, int] = {}
        self.included: dict[str | None, list[str | None]] = {}
        """The names that each template includes; None for a name that is no constant."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        self._sizes[name] = _check(tree, name, filename)
        self.included[name] = [*meta.find_referenced_templates(tree)]
        _Counting().visit(tree)
        return tree

    def get_template(self, *arguments: Any, **named: Any) -> Template:
        """The template; one that another includes is counted."""
        template = super().get_template(*arguments, **named)
        self.spent.run(20 + self._sizes.get(template.name, 0))
        return template

    def concat(self, chunks: Iterable[str]) -> str:
        """The text of a rendering."""
        parts = list(chunks)  # texts that are there already, each as often as it is written
        self.spent.make(sum(map(len, parts)))
        return "".join(parts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> NoReturn:
        raise SecurityError(f"templates do not calculate ({operator}); their family's variables() does")

    def call(self, context: Context, obj: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(obj, Undefined):
            obj()  # which says what is not defined
        raise SecurityError("templates call nothing; their family's variables() gives them what they need")

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return isinstance(obj, LoopContext) and super().is_safe_attribute(obj, attr, value)


def _check(tree: nodes.Template, name: str | None, filename: str | None) -> int:
    """The number of parts of a template. Raises TemplateSyntaxError if a part is none of `_ALLOWED`."""

    def refuse(node: nodes.Node, message: str) -> NoReturn:
        raise TemplateSyntaxError(message, node.lineno, name, filename)

    count = 0
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]  # each with its depth, in all and of loops
    while waiting:
        node, depth, loops = waiting.pop()
        count += 1
        loops += isinstance(node, nodes.For)
        if depth > limits.MOST_TEMPLATE_DEPTH or loops > limits.MOST_LOOPS:
            refuse(node, "it is nested too deep")
        if count > limits.MOST_TEMPLATE_NODES:
            refuse(node, f"a template has at most {limits.MOST_TEMPLATE_NODES:,} expressions and statements")
        if not isinstance(node, _ALLOWED) or (isinstance(node, nodes.For) and node.recursive):
            refuse(node, f"templates have no {type(node).__name__}; they have if, for, set, with and include")
        literal = isinstance(node, nodes.List) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
        if literal and not all(isinstance(item, nodes.Const) for item in node.iter_child_nodes()):
            refuse(node, "a list in a template holds constants only")
        if isinstance(node, nodes.Const) and isinstance(node.value, str) and not _encodable(node.value):
            refuse(node, "a text holds half a character, which UTF-8 does not have")
        if isinstance(node, nodes.Filter) and node.name not in FILTERS:
            refuse(node, f"no filter {node.name!r}; templates have {', '.join(FILTERS)}")
        if isinstance(node, nodes.Test) and node.name not in _TESTS:
            refuse(node, f"no test {node.name!r}; templates have {', '.join(_TESTS)}")
        waiting += [(child, depth + 1, loops) for child in node.iter_child_nodes()]
    return count


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


class _Counting(NodeTransformer):
    """Lets loops count how often they run, and `~` what it makes."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 (Jinja's name)
        size = sum(1 for child in node.body for _ in _all(child))
        self.generic_visit(node)
        cost = nodes.Const(1 + size, lineno=node.lineno)
        node.iter = nodes.Filter(node.iter, _COUNTED, [cost], [], None, None, lineno=node.lineno)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, _JOINED, [], [], None, None, lineno=node.lineno)


def _all(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _all(child)


def _printed(value: object) -> object:
    """A value as it is written. Lists are not: one of lists of lists would have no bounds."""
    if isinstance(value, str | int | float | Undefined):
        return value
    raise SecurityError(
        f"templates write texts and numbers, not {type(value).__name__}; a list by `for` or join"
    )


def _text(value: object) -> str:
    return str(_printed(value))


@pass_context
def _counted(context: Context, items: Iterable[Any], cost: int) -> Iterator[Any]:
    spent: Spent = context.environment.spent  # type: ignore[attr-defined]
    for item in items:
        spent.run(cost)
        yield item


@pass_context
def _joined(context: Context, items: Iterable[Any], separator: str = "") -> str:
    spent: Spent = context.environment.spent  # type: ignore[attr-defined]
    texts = [_text(item) for item in items]
    spent.make(sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


@pass_context
def _replaced(context: Context, value: object, old: str, new: str) -> str:
    spent: Spent = context.environment.spent  # type: ignore[attr-defined]
    text = _text(value)
    spent.make(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _made(function: Callable[[str], str]) -> Callable[..., str]:
    """A filter of a text that makes one of about its length."""

    @pass_context
    def counted(context: Context, value: object) -> str:
        spent: Spent = context.environment.spent  # type: ignore[attr-defined]
        text = _text(value)
        spent.make(len(text))
        return function(text)

    return counted


def _default(value: object, other: object) -> object:
    return other if isinstance(value, Undefined) else value


def _first(items: Any) -> Any:
    return next(iter(items))


def _last(items: Any) -> Any:
    return items[len(items) - 1]


FILTERS: dict[str, Callable[..., Any]] = {
    "capitalize": _made(str.capitalize),
    "default": _default,
    "first": _first,
    "join": _joined,
    "last": _last,
    "length": len,
    "lower": _made(str.lower),
    "replace": _replaced,
    "trim": _made(str.strip),
    "upper": _made(str.upper),
}
"""The operations that a template may apply to a value."""
