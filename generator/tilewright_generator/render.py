"""Renders templates. A name that a template uses and nobody gives is an error, never an empty string.

Templates render in a sandbox (`sandbox.py`), because a project may have its own, and `check` runs on branches
that nobody has read yet: a template sees the text that its family gives it, and calls nothing. Nor does it
calculate: numbers are the family's to work out, once, where rules and tests see them too.
"""

from __future__ import annotations

import re
import traceback
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, Template, TemplateNotFound, TemplateSyntaxError
from jinja2.loaders import split_template_path

from tilewright.base import reading
from tilewright.errors import UnreadableFileError
from tilewright_generator import conflicts
from tilewright_generator.errors import InternalError, TilewrightError, UsageError, mistake
from tilewright_generator.limits import MOST_TEMPLATE_BYTES
from tilewright_generator.project import Project
from tilewright_generator.sandbox import Names, Sandbox, Spent


class _Loader(BaseLoader):
    """Templates of the first folder that has them."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, None]:
        """The template's text, with line feeds alone, and its path. Raises UnreadableFileError, too."""
        for folder in self._folders:
            path = folder.joinpath(*split_template_path(template))
            with suppress(FileNotFoundError):
                text = reading.text(path, MOST_TEMPLATE_BYTES)
                return text.replace("\r\n", "\n").replace("\r", "\n"), str(path), None
        raise TemplateNotFound(template)


class Renderer:
    """The templates of the first folder that has them, each compiled once.

    A fault of a template is an `InternalError` if the template comes with tilewright, else a `UsageError`.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._loader = _Loader(project.templates)
        self._environment = Sandbox(self._loader)
        self._compiled: dict[str, Template] = {}
        self._digests: dict[str, dict[str, str]] = {}
        self._paths: dict[str, str] = {}

    def prepare(self, template: str) -> dict[str, str]:
        """Compile the template now. Answers the SHA-256 of its text, and of all that it includes, by name."""
        if template not in self._digests:
            sources: dict[str, str] = {}
            waiting = [template]
            while waiting:
                name = waiting.pop()
                if name in sources:
                    continue
                try:
                    source = self._source(name)
                except TemplateNotFound as error:
                    if name != template:  # which `ignore missing` allows; rendering knows
                        continue
                    folders = ", ".join(map(str, self._project.templates))
                    family = split_template_path(name)[0]
                    raise mistake(family, f"no template {name} in any of {folders}") from error
                except UnreadableFileError as error:
                    raise UsageError(f"cannot read the template {name}: {error.message}") from error
                sources[name] = sha256(source.encode()).hexdigest()
                waiting += self._included(name)
            self._digests[template] = sources
        return self._digests[template]

    def render(self, template: str, variables: dict[str, Any]) -> str:
        """The template's text with these variables, which must be all that it uses."""
        self.prepare(template)
        lists = {key: Names(value) for key, value in variables.items() if isinstance(value, list)}
        self._environment.spent = Spent(sum(map(len, lists.values())))
        try:
            return self._compiled[template].render(variables | lists)
        except Exception as error:
            name = variables.get("name") or variables.get("module")
            raise self._fault(template, f"{self._place(template, error)}: {error} (for {name})") from error

    def _place(self, template: str, error: BaseException) -> str:
        """The path of the template that was being rendered, and the line."""
        paths = {*self._paths.values()}
        for frame, line in reversed([*traceback.walk_tb(error.__traceback__)]):
            if (path := frame.f_code.co_filename) in paths:
                return f"{path}:{line}"
        return self._paths[template]

    def _source(self, name: str) -> str:
        """The text of a template that is compiled then. Raises TemplateNotFound."""
        source, path, _ = self._loader.get_source(self._environment, name)
        self._paths[name] = path
        line = conflicts.first(source)
        if line is not None:
            raise UsageError(f"{path}:{line}: the conflict of a merge; resolve it in the template")
        self._environment.spent = Spent(0)
        try:
            self._compiled[name] = self._environment.get_template(name)
        except TemplateSyntaxError as error:
            raise self._fault(name, f"{path}:{error.lineno}: {error.message}") from error
        except RecursionError as error:
            raise self._fault(name, f"{path}:{_deepest(source)}: it is nested too deep") from error
        except Exception as error:  # of Python's compiler, of a number of thousands of digits
            raise self._fault(name, f"{path}:{_long_number(source)}: {error}") from error
        return source

    def _included(self, name: str) -> list[str]:
        referenced = self._environment.included[name]
        if not all(name and name.isprintable() for name in referenced):
            raise self._fault(name, f"{self._paths[name]}: a template names what it includes in quotes")
        return [name for name in referenced if name is not None]

    def _fault(self, template: str, message: str) -> TilewrightError:
        return (UsageError if self._project.owns(Path(self._paths[template])) else InternalError)(message)


def _long_number(source: str) -> int:
    """The line of the first number that Python does not read, else 1."""
    match = re.search(r"[0-9][0-9_]{4000}", source)
    return source.count("\n", 0, match.start()) + 1 if match else 1


def _deepest(source: str) -> int:
    """The line with the most brackets."""
    lines = source.split("\n")
    return 1 + max(range(len(lines)), key=lambda at: sum(map(lines[at].count, "([{|.")))
