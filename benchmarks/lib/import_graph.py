"""The modules of the packages, what each imports, and which of them a served call imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"tilewright": ROOT / "runtime", "tilewright_generator": ROOT / "generator"}
# How code calls the catalog's function that imports a module of a family by name.
FAMILY_MODULE = ("family_module", "catalog.family_module")
# Modules of a family that the catalog imports by name when an op is called.
SERVING_PARTS = ("op", "family", "interface", "vocabulary", "config")
# What a call imports besides, inside functions: the list of built libraries, and the check of their owner.
OF_BUILT = ("tilewright.compile.prebuilt", "tilewright.compile.library", "tilewright.compile.trust")

# What the runtime imports inside functions, and not for a call: builds, tools, bundles and logs of processes
# that ask for them, and what replaces ops without torch.
NOT_IN_CALLS = (
    "tilewright.compile", "tilewright.tools", "tilewright.bundle", "tilewright.base.logs",
    "tilewright.calls.stand_ins", "tilewright.families.gemm.sweep",
)  # fmt: skip


def modules(packages: Mapping[str, Path] = PACKAGES) -> dict[str, Path]:
    """The files of all modules, by name."""
    files = {}
    for package, folder in packages.items():
        for path in sorted((folder / package).rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def imports(
    name: str, source: str | ast.Module, files: Mapping[str, object], *, by_name: bool = True
) -> set[str]:
    """The modules among `files` that a module imports.

    Every import statement counts: at the top, in a function (done when it is called), under TYPE_CHECKING
    (never done). So does `import_module` of a text, in which `{x}` stands for any part of a module's name
    (`{__name__}` for what it is), and with `by_name` what the catalog of families finds by name. What does
    not count: that a module's packages are imported with it, and `import_module` of what a variable holds.
    """
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source) if isinstance(source, str) else source):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: a relative import"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= {module if module in files else str(node.module) for module in whole}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in FAMILY_MODULE:
            module = node.args[1]  # of any family's package
            assert isinstance(module, ast.Constant), f"{name}: which module of a family is not known"
            pattern = rf"tilewright\.families\.\w+\.{module.value}"
            imported |= {module for module in files if by_name and re.fullmatch(pattern, module)}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            text = node.args[0]
            if isinstance(text, ast.JoinedStr):
                pattern = "".join(_pattern(part, name) for part in text.values)
                imported |= {module for module in files if re.fullmatch(pattern, module)}
            elif isinstance(text, ast.Constant):
                imported.add(str(text.value))
    return {module for module in imported if module in files and module != name}


def _pattern(part: ast.expr, name: str) -> str:
    if isinstance(part, ast.Constant):
        return re.escape(str(part.value))
    assert isinstance(part, ast.FormattedValue)
    return re.escape(name) if ast.unparse(part.value) == "__name__" else r"[\w.]+"


class _Pruned(ast.NodeTransformer):
    """A module without what is under TYPE_CHECKING, and without the bodies of functions."""

    def __init__(self, *, functions: bool) -> None:
        self.functions = functions

    def visit_If(self, node: ast.If) -> ast.AST:
        return ast.Pass() if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(node) if self.functions else ast.Pass()


def reached(roots: Iterable[str], files: Mapping[str, Path], late: Callable[[str], bool]) -> set[str]:
    """The modules that are imported with `roots`. Of the imports inside functions, those of modules for which
    `late` is true."""
    reached: set[str] = set()
    pending = [*roots]
    while pending:
        name = pending.pop()
        if name in reached or name not in files:
            continue
        reached.add(name)
        text = files[name].read_text(encoding="utf-8")
        at_once, in_all = (
            imports(name, _Pruned(functions=functions).visit(ast.parse(text)), files, by_name=False)
            for functions in (False, True)
        )
        pending += {*at_once, *filter(late, in_all), name.rpartition(".")[0]}
    return reached


def served(files: Mapping[str, Path]) -> set[str]:
    """The modules that calls of all ops import, where their kernels are built: `tests/runtime/calls` compares
    with a process."""
    parts = "|".join(SERVING_PARTS)
    of_families = [name for name in files if re.fullmatch(rf"tilewright\.families\.\w+\.({parts})", name)]
    with_config = {name.rpartition(".")[0] for name in of_families if name.endswith(".config")}
    kernels = [name for name in files if re.fullmatch(r"tilewright\.families\.\w+\.kernel", name)]
    # The catalog takes `kernel` where a family has no `config`.
    roots = [*of_families, *(name for name in kernels if name.rpartition(".")[0] not in with_config)]
    public = ("tilewright", "tilewright.torch_ops", "tilewright.calls.prepared")
    roots += [*public, "tilewright.contractions.einsum", *OF_BUILT]
    return reached(roots, files, lambda name: not name.startswith(NOT_IN_CALLS))


def built(files: Mapping[str, Path]) -> set[str]:
    """The modules that a build imports besides, ahead of time or because a call needs a kernel."""
    modules = reached(["tilewright.compile.building"], files, lambda name: "stand_ins" not in name)
    return modules - served(files)


def bundled(files: Mapping[str, Path]) -> set[str]:
    """The modules that a process imports besides for a bundle (docs/bundles.md)."""
    modules = reached(["tilewright.bundle"], files, lambda name: not name.startswith(NOT_IN_CALLS))
    return modules - served(files)


def generated(files: Mapping[str, Path]) -> set[str]:
    """The modules that the generator asks about kernels, and no call: rules, shared memory, sources."""
    pattern = r"tilewright\.families\.\w+\.(kernel|rules|memory)"
    kernels = [name for name in files if re.fullmatch(pattern, name)]
    roots = [*kernels, "tilewright.configurations.family", "tilewright.declarations.headers"]
    modules = reached(roots, files, lambda name: "stand_ins" not in name)
    return modules - served(files) - built(files)
