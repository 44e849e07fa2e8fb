"""Adds the repository's pages to the site, under their paths, and what is generated of specs and records.

A link to a file of the repository that is no page leads to a page that shows the file. A link to a folder,
or to a file that a page cannot show, becomes plain text.
"""

from __future__ import annotations

import html
import importlib
import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tilewright.declarations import catalog
from tilewright_generator import generation
from tilewright_generator.project import Project
from tilewright_generator.reports import kernels
from tilewright_generator.reports.page import page as report

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "source"  # the folder of pages that show files
MOST_SHOWN = 200_000  # bytes of a file that a page shows
SHOWN = {
    ".py": "python", ".hpp": "cpp", ".h": "c", ".cu": "cuda", ".cc": "cpp", ".cpp": "cpp", ".txt": "cmake",
    ".yaml": "yaml", ".json": "json", ".j2": "jinja", ".toml": "toml",
}  # fmt: skip
# Code, in which nothing is a link; and the target of a link.
_PART = re.compile(
    r"(^```.*?^```$|`[^`\n]*`)|\[([^]\n]*(?:\n[^]\n]+)?)\]\(([^)\s]+)\)", re.MULTILINE | re.DOTALL
)
# A mark behind a block's language says what a test does with it (```sh compile).
_MARK = re.compile(r"^```(\w+) \w+$", re.MULTILINE)


def repository_pages() -> list[Path]:
    """The pages of the repository."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md")]
    folders = (ROOT / name for name in ("docs", "benchmarks/results", "tuned"))
    pages = [page for folder in folders for page in sorted(folder.glob("*.md"))]
    return [*top, *pages, *sorted((ROOT / "examples").glob("*/README.md"))]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts pages of docs/ that the navigation does not name behind those that it does."""
    named = str(config.nav)
    uris = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]
    more = [uri for uri in uris if f"'{uri}'" not in named]
    if more:
        config.nav = [*(config.nav or []), {"More": more}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    texts = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in repository_pages()
    }
    for path in sorted((ROOT / "docs/images").iterdir()):
        uri = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    for uri, text in texts.items():
        files.append(File.generated(config, uri, content=_after_pages(uri) + text))
    for shown in sorted(set(_shown(texts.items()))):
        files.append(File.generated(config, f"{SOURCE}/{shown}.md", content=_source_page(shown)))
    files.append(File.generated(config, "api/ops.md", content="\n".join(_ops())))
    project = Project.find(ROOT)
    expansions = generation.read(project, project.specs())
    files.append(File.generated(config, "kernels.md", content=_kernels(kernels.rows(project, expansions))))
    files.append(File.generated(config, "report.html", content=report(project, expansions)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to files to the pages that show them."""
    uri = page.file.src_uri

    def replaced(match: re.Match[str]) -> str:
        code, text, link = match.groups()
        if code is not None:
            return _MARK.sub(r"```\1", code)
        target, _, _ = link.partition("#")
        if re.match(r"[a-z]+:", link) or not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
        if files.get_file_from_path(path) is not None or uri.startswith(("api/", "kernels")):
            return match[0]
        if files.get_file_from_path(f"{SOURCE}/{path}.md") is not None:
            return f"[{text}]({posixpath.relpath(f'{SOURCE}/{path}.md', posixpath.dirname(uri) or '.')})"
        if (ROOT / path).exists():
            return text
        return match[0]  # leads nowhere, which a strict build reports

    return _PART.sub(replaced, markdown)


def _after_pages(uri: str) -> str:
    """The head that puts records behind pages in the answers of a search: records repeat words more often."""
    is_record = uri.startswith(("benchmarks/results/", "tuned/"))
    return "---\nsearch: {boost: 0.1}\n---\n" if is_record else ""


def _shown(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The files that pages link to, and that a page can show."""
    for uri, text in texts:
        for code, _, link in _PART.findall(text):
            target = "" if code else link.partition("#")[0]
            path = posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
            if target and not path.startswith("..") and _can_be_shown(ROOT / path):
                yield path


def _can_be_shown(path: Path) -> bool:
    return path.suffix in SHOWN and path.is_file() and path.stat().st_size <= MOST_SHOWN


def _source_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    fence = "`" * 6
    head = "---\nsearch: {exclude: true}\n---\n"
    return f"{head}# `{path}`\n\n{fence}{SHOWN[Path(path).suffix]}\n{text}\n{fence}\n"


def _ops() -> Iterator[str]:
    """The page of ops, family by family."""
    yield "# Ops\n"
    yield "Each is `tilewright.NAME`. The heads name the modules that hold them.\n"
    yield "::: tilewright.contractions.einsum.einsum\n"
    for _, package in sorted(catalog.packages().items()):
        for op in importlib.import_module(package).OPS:
            yield f"::: {package}.op.{op}\n"


def _kernels(rows: list[kernels.Row]) -> str:
    """The table of every kernel, as `tilewright list --long` has it."""
    lines = [
        "---\nsearch: {exclude: true}\n---",
        "# Kernels",
        "",
        "What each kernel has been through, by the committed records: compiled, with its machine code",
        "checked; run on a GPU, its tests passed; hammered, run thousands of times beside another stream.",
        "*current* is a record of the kernel as it is, *stale* of another source, *never* means that",
        "there is none. [The report](report.html) has fields, registers, shared memory, speeds and",
        "rooflines, to search and to sort.",
        "",
    ]
    for key in ("target", "module"):
        lines += [*_table([key, *kernels.SUMMARY], kernels.summary(rows, key)), ""]
    for module in dict.fromkeys(row.expansion.spec.module for row in rows):
        some = [row for row in rows if row.expansion.spec.module == module]
        spec = some[0].expansion.spec
        cells = [[row.kernel.name, *_states(row), spec.family.summary(row.kernel.config)] for row in some]
        lines += [f"## {module}", "", html.escape(spec.description), ""]
        lines += [*_table(["kernel", "compiled", "run", "hammered", "is"], cells), ""]
    return "\n".join(lines)


def _states(row: kernels.Row) -> list[str]:
    return [row.verdict.compiled, row.verdict.run, row.verdict.hammered]


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """As HTML: Markdown of a thousand rows takes minutes to read."""
    yield '<table class="kernels">'
    yield "<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>"
    yield from ("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    yield "</table>"
