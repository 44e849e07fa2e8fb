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
    TemplateNotFound,
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
        # Every rendering would copy Jinja's own globals (range, lipsum, ...), of which templates need none.
        self._environment.globals.clear()
        self._compiled: dict[str, Template] = {}

    def prepare(self, template: str) -> None:
        """Compile the template now."""
        if template not in self._compiled:
            try:
                self._compiled[template] = self._environment.get_template(template)
            except TemplateSyntaxError as error:
                where = f"{error.filename or self._folder / template}:{error.lineno}"
                raise InternalError(f"{where}: {error.message}") from error
            except TemplateNotFound as error:
                raise InternalError(f"no template {error} in {self._folder}") from error

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """The template's text with these variables, which must be all that it uses."""
        self.prepare(template)
        try:
            return self._compiled[template].render(variables)
        except TemplateError as error:
            name = variables.get("name") or variables.get("module")
            raise InternalError(f"{self._folder / template}: {error} (for {name})") from error
