"""What the site does beyond Sphinx: docstrings as the house writes them, links to pages above docs/, and llms.txt."""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ABOVE = re.compile(r"\]\((?:\.\./)+(CHANGELOG|CONTRIBUTING)\.md")
"""A link from a page to a file above docs/. The site has it as a page: docs/CHANGELOG.md includes it."""
CAPTION = re.compile(r"^:caption: (?P<name>.+)$", re.MULTILINE)
TREE = re.compile(r"^:::\{toctree\}\n(?P<options>(?::.*\n)*)(?P<pages>(?:.+\n)*?):::$", re.MULTILINE)

INCLUDED = {"index.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
CONTENTS_DEPTH = 2
"""Pages, and the pages below them."""
NOT_CALLED = {"Control", "HeldJob", "Inspect", "Job", "JobHandle", "Outgoing", "Queue", "Task", "TaskCall"}
MARKUP = re.compile(r"(`[^`]*`(?!\w))|([*_|\\`])")
"""Names in backticks, and the characters that mean something to Sphinx, but not in the docstrings of the house."""
OPTION_NAME = r"`\w+`(?:(?:,| and) `\w+`)*: "
OPTION = re.compile(rf"(?<=[.)]) (?={OPTION_NAME})")
RAISES = re.compile(r"(?<=[.)]) (?=(?:Otherwise r|R)aises )")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", link_pages_above)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("html-page-context", shorten_contents, priority=400)  # before the theme's
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_pages_above(app: Sphinx, page: str, content: list[str]) -> None:
    up = "../" * page.count("/")
    content[0] = ABOVE.sub(lambda match: f"]({up}{match[1]}.md", content[0])


def shorten_contents(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    """Let the theme make the table of contents from pages alone. With all headings it is 40 % of the build.

    For each page, Sphinx copies the headings of all pages, also those that it then leaves out.
    """
    make, env = context["toctree"], app.env

    def contents(**options: Any) -> str:
        headings = env.tocs
        env.tocs = titles_of(app)
        try:
            return str(make(**options | {"maxdepth": CONTENTS_DEPTH}))
        finally:
            env.tocs = headings

    context["toctree"] = contents


@cache
def titles_of(app: Sphinx) -> dict[str, Any]:
    """Return the tables of contents of all pages without headings: the title of the page, and the pages below it."""
    from sphinx.addnodes import toctree

    tocs = {page: toc.deepcopy() for page, toc in app.env.tocs.items()}
    for title in (child for toc in tocs.values() for child in toc.children if len(child) > 1):
        title[1][:] = list(title.findall(toctree))
    return tocs


def without_constructor(
    app: Sphinx, what: str, name: str, value: object, options: object, signature: str, returns: str
) -> tuple[str, str] | None:
    """Hide how objects are made that users get from calls."""
    return ("", "") if what == "class" and name.rpartition(".")[2] in NOT_CALLED else None


def mark_code(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Make code blocks of the examples in a docstring: paragraphs that are indented, or that are Python."""
    if what not in ("module", "class", "exception", "function", "method", "attribute", "property", "data"):
        return
    marked: list[str] = []
    for example, run in groupby(paragraphs(lines), key=is_code):
        if example:
            code = textwrap.dedent("\n\n".join(run))
            marked += [".. code-block:: python", "", *textwrap.indent(code, "   ").split("\n"), ""]
        else:
            marked += [line for paragraph in run for line in (*listed(paragraph), "")]
    lines[:] = marked


def paragraphs(lines: list[str]) -> Iterator[str]:
    for has_text, block in groupby(lines, key=bool):
        if has_text:
            yield "\n".join(block)


def is_code(paragraph: str) -> bool:
    """Return whether a paragraph is an example: indented, or Python. Prose ends with a full stop: it does not parse."""
    if paragraph.startswith((" ", ">>>")):
        return paragraph.startswith(" ")
    for source in (paragraph, f"async def _():\n{textwrap.indent(paragraph, '    ')}"):
        with suppress(SyntaxError):
            ast.parse(source)
            return True
    return False


def listed(paragraph: str) -> list[str]:
    """Return a paragraph with its options, "`name`: what it is.", as a list, and what it raises below."""
    if paragraph.startswith(">>>"):
        return paragraph.split("\n")
    text = MARKUP.sub(lambda match: match[1] or f"\\{match[2]}", paragraph)
    if text.startswith("- "):
        return text.split("\n")
    about, *raises = RAISES.split(text.replace("\n", " "), maxsplit=1)
    first, *options = OPTION.split(about)
    if re.match(OPTION_NAME, first):
        first, options = "", [first, *options]
    if len(options) < 2:
        return [about, "", *raises]
    return [first, "", *(f"- {option}" for option in options), "", *raises]


def write_llms(app: Sphinx, error: Exception | None) -> None:
    """Write llms.txt: each page with its title, its first sentence and the address of its Markdown."""
    if error or app.builder.name != "html":
        return
    docs, sources = Path(app.srcdir), Path(app.outdir, "_sources")
    for page, file in INCLUDED.items():  # the page itself only names the file
        shutil.copyfile(docs.parent / file, sources / page)
    parts = ["# Tenure", f"> {first_sentence((docs.parent / 'README.md').read_text())}"]
    for section in TREE.finditer((docs / "index.md").read_text()):
        caption = CAPTION.search(section["options"])
        assert caption, "a table of contents in docs/index.md has no caption"
        pages = [page for top in section["pages"].split() for page in (top, *app.env.toctree_includes.get(top, ()))]
        rows = [row(app, docs, page) for page in pages]
        parts.append(f"## {caption['name']}\n\n" + "\n".join(rows))
    (Path(app.outdir) / "llms.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def row(app: Sphinx, docs: Path, page: str) -> str:
    text = (docs / f"{page}.md").read_text(encoding="utf-8")
    title = app.env.titles[page].astext()
    about = first_sentence(text)
    place = f"{page}.html" if "{eval-rst}" in text else f"_sources/{page}.md"  # docstrings are only in the HTML
    return f"- [{title}]({app.config.html_baseurl}{place})" + (f": {about}" if about else "")


def first_sentence(page: str) -> str:
    """Return the first sentence below the title, on one line; empty if the page starts with something else."""
    below = re.sub(r"\A# .*\n", "", page.lstrip())
    paragraph = " ".join(below.strip().partition("\n\n")[0].split())
    if re.match(r"[-#<|:~]|```|\d", paragraph):
        return ""
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z`(\[])", paragraph)[0].rstrip(":")
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
