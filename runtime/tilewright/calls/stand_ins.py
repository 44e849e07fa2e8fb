"""Replaces ops on machines without torch: `help()` shows the same text, and a call says what to install.

An op's module imports torch. So its source is read instead, with the signature and the docstring.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NoReturn

from tilewright.calls.docstrings import completed


class _Written(str):
    """An expression as the source has it, which `repr` must not put in quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def needs_torch(name: str) -> ModuleNotFoundError:
    """The error for a name of `tilewright` that cannot be used without torch."""
    return ModuleNotFoundError(
        f"tilewright.{name} needs torch: pip install 'tilewright[torch]'", name="torch"
    )


def stand_in(module: str, name: str) -> Callable[..., NoReturn]:
    """A function with the name, signature and docstring of `name` in a module that is not imported.

    Calling it raises ModuleNotFoundError. If the module defines no such function, the name is
    a class, and ModuleNotFoundError is raised at once.
    """

    def function(*arguments: Any, **options: Any) -> NoReturn:
        raise needs_torch(name)

    definitions = _definitions(module)
    if name not in definitions:
        raise needs_torch(name)
    written = definitions[name]
    signed = definitions[_like(written) or name]
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    decorators = [node for node in written.decorator_list if isinstance(node, ast.Call)]
    public = any(_text(call.func) == "public" for call in decorators)
    function.__doc__ = (completed if public else str)(ast.get_docstring(written) or "")
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        list(_parameters(signed.args)), return_annotation=_text(signed.returns)
    )
    return function


def _definitions(module: str) -> dict[str, ast.FunctionDef]:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise KeyError(module)
    with open(spec.origin, encoding="utf-8") as file:  # noqa: PTH123 (as importlib gives it)
        body = ast.parse(file.read()).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def _like(function: ast.FunctionDef) -> str | None:
    """The function whose signature it has, if its decorator names one: `@public(..., like=another)`."""
    calls = (call for call in function.decorator_list if isinstance(call, ast.Call))
    likes = (
        ast.unparse(keyword.value) for call in calls for keyword in call.keywords if keyword.arg == "like"
    )
    return next(likes, None)


def _parameters(arguments: ast.arguments) -> Iterator[inspect.Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for index, (argument, default) in enumerate(
        zip(positional, [*defaults, *arguments.defaults], strict=True)
    ):
        only = index < len(arguments.posonlyargs)
        kind = inspect.Parameter.POSITIONAL_ONLY if only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        yield _parameter(argument, kind, default)
    if arguments.vararg:
        yield _parameter(arguments.vararg, inspect.Parameter.VAR_POSITIONAL, None)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, inspect.Parameter.KEYWORD_ONLY, default)
    if arguments.kwarg:
        yield _parameter(arguments.kwarg, inspect.Parameter.VAR_KEYWORD, None)


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    return inspect.Parameter(
        argument.arg, kind, default=_text(default), annotation=_text(argument.annotation)
    )


def _text(expression: ast.expr | None) -> Any:
    return inspect.Parameter.empty if expression is None else _Written(ast.unparse(expression))
