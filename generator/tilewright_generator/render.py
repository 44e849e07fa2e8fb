"""Renders templates. A name that a template uses and nobody gives is an error, never an empty string."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
)

from tilewright_generator.errors import InternalError


class Renderer:
    """The templates of one folder, each compiled once."""

    def __init__(self, templates: Path) -> None:
        self._folder = templates
        self._environment = Environment(
            loader=FileSystemLoader(templates),
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            auto_reload=False,
        )
        self._compiled: dict[str, Template] = {}

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """The template's text with these variables; LF, ending in one newline."""
        try:
            compiled = self._compiled.get(template) or self._compile(template)
            return compiled.render(variables)
        except TemplateSyntaxError as error:
            raise InternalError(f"{self._folder / template}:{error.lineno}: {error.message}") from error
        except TemplateError as error:
            name = variables.get("name") or variables.get("module")
            raise InternalError(f"{self._folder / template}: {error} (for {name})") from error

    def _compile(self, template: str) -> Template:
        return self._compiled.setdefault(template, self._environment.get_template(template))
