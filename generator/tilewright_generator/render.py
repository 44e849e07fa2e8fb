"""Renders templates. A name that a template uses and nobody gives is an error, never an empty string.

Templates render in a sandbox, because a project may have its own, and `check` runs on branches that nobody
has read yet: a template sees the text that its family gives it, and calls nothing that leads to Python. Nor
does it calculate: numbers are the family's to work out, once, where rules and tests see them too.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from jinja2 import FileSystemLoader, StrictUndefined, Template, TemplateNotFound, TemplateSyntaxError, meta
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tilewright_generator import conflicts
from tilewright_generator.errors import InternalError, TilewrightError, UsageError
from tilewright_generator.project import Project


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, without arithmetic: `"a" * 10000000000` would take a machine's memory, too."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> NoReturn:
        raise SecurityError(f"templates do not calculate ({operator}); their family's variables() does")


class Renderer:
    """The templates of the first folder that has them, each compiled once.

    A fault of a template is a `UsageError` where the template is the project's, else an `InternalError`.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._loader = FileSystemLoader(project.templates)
        self._environment = _Sandbox(
            loader=self._loader,
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            auto_reload=False,
        )
        # Every rendering would copy Jinja's own globals (range, lipsum, ...), of which templates need none.
        self._environment.globals.clear()
        self._compiled: dict[str, Template] = {}
        self._digests: dict[str, dict[str, str]] = {}
        self._paths: dict[str, str] = {}

    def prepare(self, template: str) -> dict[str, str]:
        """Compile the template now. Answers the SHA-256 of its text, and of all that it includes, by name."""
        if template not in self._digests:
            found: dict[str, str] = {}
            waiting = [template]
            while waiting:
                name = waiting.pop()
                if name in found:
                    continue
                try:
                    source = self._source(name)
                except TemplateNotFound as error:
                    if name != template:  # which `ignore missing` allows; rendering knows
                        continue
                    folders = ", ".join(map(str, self._project.templates))
                    raise InternalError(f"no template {name} in any of {folders}") from error
                except (OSError, UnicodeDecodeError) as error:
                    raise UsageError(f"cannot read the template {name}: {error}") from error
                found[name] = sha256(source.encode()).hexdigest()
                waiting += self._included(name, source)
            self._digests[template] = found
        return self._digests[template]

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """The template's text with these variables, which must be all that it uses."""
        self.prepare(template)
        try:
            return self._compiled[template].render(variables)
        except Exception as error:
            name = variables.get("name") or variables.get("module")
            raise self._fault(template, f"{template}: {error} (for {name})") from error

    def _source(self, name: str) -> str:
        """The text of a template that is compiled then. Raises TemplateNotFound."""
        source, path, _ = self._loader.get_source(self._environment, name)
        self._paths[name] = path
        line = conflicts.first(source)
        if line is not None:
            raise UsageError(f"{path}:{line}: the conflict of a merge; resolve it in the template")
        try:
            self._compiled[name] = self._environment.get_template(name)
        except TemplateSyntaxError as error:
            raise self._fault(name, f"{path}:{error.lineno}: {error.message}") from error
        except RecursionError as error:
            raise self._fault(name, f"{path}: it is nested too deep") from error
        return source

    def _included(self, name: str, source: str) -> list[str]:
        referenced = list(meta.find_referenced_templates(self._environment.parse(source)))
        if not all(other and other.isprintable() for other in referenced):
            raise self._fault(name, f"{self._paths[name]}: a template names what it includes in quotes")
        return [other for other in referenced if other is not None]

    def _fault(self, template: str, message: str) -> TilewrightError:
        return (UsageError if self._project.owns(Path(self._paths[template])) else InternalError)(message)
