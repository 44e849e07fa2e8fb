"""Renders templates. A name that a template uses and nobody gives is an error, never an empty string."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
)

from tilewright_generator.errors import InternalError


class Renderer:
    """The templates of the first folder that has them, each compiled once."""

    def __init__(self, templates: Sequence[Path]) -> None:
        self._folders = ", ".join(map(str, templates))
        self._environment = Environment(
            loader=FileSystemLoader(templates),
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            auto_reload=False,
        )
        # Every rendering would copy Jinja's own globals (range, lipsum, ...), of which templates need none.
        self._environment.globals.clear()
        self._compiled: dict[str, Template] = {}

    def prepare(self, template: str) -> None:
        """Compile the template now."""
        if template not in self._compiled:
            try:
                self._compiled[template] = self._environment.get_template(template)
            except TemplateSyntaxError as error:
                where = f"{error.filename or template}:{error.lineno}"
                raise InternalError(f"{where}: {error.message}") from error
            except TemplateNotFound as error:
                raise InternalError(f"no template {error} in any of {self._folders}") from error

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """The template's text with these variables, which must be all that it uses."""
        self.prepare(template)
        try:
            return self._compiled[template].render(variables)
        except TemplateError as error:
            name = variables.get("name") or variables.get("module")
            raise InternalError(f"{template}: {error} (for {name})") from error
