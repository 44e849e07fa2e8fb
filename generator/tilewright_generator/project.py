"""The places of a project's specs, templates and generated files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.base import plugins, reading
from tilewright.base.spelling import did_you_mean, listed
from tilewright.errors import UnreadableFileError
from tilewright_generator.errors import UsageError

# Those of an installed wheel, and of a checkout.
_OUR_TEMPLATES = (
    Path(__file__).parent / "_data" / "templates",
    Path(__file__).resolve().parents[2] / "templates",
)


@dataclass(frozen=True, slots=True)
class Project:
    """A folder that holds `specs/`; and the folder that generated files go to."""

    root: Path
    out: Path

    @classmethod
    def find(cls, root: str | Path | None = None, out: str | Path | None = None) -> Project:
        """The project at `root`, else the nearest one around the working directory."""
        directory = Path(root).absolute() if root is not None else _nearest(Path.cwd())
        if not directory.is_dir():
            raise UsageError(f"--root {root}: no such directory")
        return cls(directory, Path(out).absolute() if out is not None else directory / "generated")

    @classmethod
    def seen(cls, root: str | Path | None = None) -> Project:
        """Finds the project for a command that changes nothing: outside of any project, the files that
        come with tilewright."""
        from tilewright.base import paths  # noqa: PLC0415 (generating needs no runtime)

        try:
            return cls.find(root)
        except UsageError:
            if root is not None:
                raise
            generated = paths.shipped_generated_dir()
            return cls(generated.parent, generated)

    @property
    def templates(self) -> list[Path]:
        """The folders of templates: first the project's, then tilewright's, then those of plugin families."""
        ours = [folder for folder in _OUR_TEMPLATES if folder.is_dir()]
        return [*dict.fromkeys((self.root / "templates", *ours, *plugins.folders("templates")))]

    def owns(self, template: Path) -> bool:
        """Whether a template is the project's or a plugin's, and not one that comes with tilewright."""
        target = template.resolve()
        return not any(target.is_relative_to(folder.resolve()) for folder in _OUR_TEMPLATES)

    @property
    def schemas(self) -> Path:
        """The folder of the JSON Schemas for editors."""
        return self.root / "specs" / "schema"

    def specs(self) -> list[Path]:
        """Every spec of the project, by name."""
        specs = sorted((self.root / "specs").glob("*.yaml"))
        if not specs:
            raise UsageError(f"{self.root / 'specs'} holds no *.yaml; write a spec or name one")
        return specs

    def chosen(self, given: Sequence[Path]) -> list[Path]:
        """The specs at these paths, or of modules of these names, each once; all specs if none is given."""
        return [*dict.fromkeys(self.spec(path).absolute() for path in given)] or self.specs()

    def ignored_specs(self) -> list[Path]:
        """Files that look like specs and are not read: `specs/*.yml`, and all in sub-folders."""
        files = (path for path in (self.root / "specs").rglob("*") if path.suffix in (".yaml", ".yml"))
        return sorted(path for path in files if path.suffix == ".yml" or path.parent != self.root / "specs")

    def spec(self, name: Path) -> Path:
        """The spec at a path, or the spec of the module that `name` is."""
        if name.is_file():
            return name
        modules = {path.stem: path for path in (self.root / "specs").glob("*.yaml")}
        if str(name) in modules:
            return modules[str(name)]
        hint = of_family(str(name), self._of_family(str(name))) or did_you_mean(str(name), modules)
        hint = hint or f"; the modules are: {listed(sorted(modules))}"
        raise UsageError(f"no spec and no module {str(name)!r}{hint}")

    def _of_family(self, family: str) -> list[str]:
        """Modules whose specs say that they are of a family, by a look at their text."""
        says = re.compile(rf"^family: *{re.escape(family)}\s*(?:#.*)?$", re.MULTILINE)
        specs = sorted((self.root / "specs").glob("*.yaml"))
        return [path.stem for path in specs if says.search(_text(path))]

    def label(self, path: Path) -> str:
        """How a spec is called in headers and messages: the same on every machine.

        A spec outside the project is called by its file name alone.
        """
        try:
            resolved, root = path.resolve(), self.root.resolve()
            if path.is_symlink() and not path.exists():  # it is the link that is to be mended
                resolved = path.parent.resolve() / path.name
        except (OSError, RuntimeError) as error:  # a link that leads to itself
            raise UsageError(f"cannot read the spec {path}: {error}") from None
        label = resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else resolved.name
        if not label.isprintable():  # every generated file has it in a comment, which a line break would end
            raise UsageError(f"the path of the spec {label!r} holds a line break or the like; rename it")
        return label


def _text(path: Path) -> str:
    """The text of a spec; empty if it cannot be read."""
    try:
        return reading.contents(path, reading.MOST_YAML_BYTES).decode(errors="replace")
    except (FileNotFoundError, UnreadableFileError):
        return ""


def of_family(word: str, modules: Sequence[str]) -> str:
    """The end of a message about a word that is no module, but the family of some modules."""
    return f"; {word} is a family, of {', '.join(modules)}" if modules else ""


def tables_folder(root: str | Path | None = None) -> Path:
    """The folder of modules: that of the project. Outside a project: that of TILEWRIGHT_GENERATED, or the
    modules that come with tilewright."""
    from tilewright.base import sets  # noqa: PLC0415 (generating needs no runtime)

    try:
        return Project.find(root).out
    except UsageError:
        if root is not None:
            raise
        return sets.first_folder()


def _nearest(start: Path) -> Path:
    for folder in (start, *start.parents):
        if (folder / "specs").is_dir():
            return folder
    raise UsageError(
        f"no project here: neither {start} nor a folder above it holds specs/; give --root, or begin one "
        "with `tilewright init`"
    )
