"""What the site does beyond Sphinx: docstrings as the house writes them, links to pages above docs/, and llms.txt."""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ABOVE = re.compile(r"\]\((?:\.\./)+(CHANGELOG|CONTRIBUTING)\.md")
"""A link from a page to a file above docs/. The site has it as a page: docs/CHANGELOG.md includes it."""
CAPTION = re.compile(r"^:caption: (?P<name>.+)$", re.MULTILINE)
TREE = re.compile(r"^:::\{toctree\}\n(?P<options>(?::.*\n)*)(?P<pages>(?:.+\n)*?):::$", re.MULTILINE)

INCLUDED = {"index.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
NOT_CALLED = {"Control", "HeldJob", "Inspect", "Job", "JobHandle", "Queue", "Task", "TaskCall"}
OPTION_NAME = r"`\w+`(?:(?:,| and) `\w+`)*: "
OPTION = re.compile(rf"(?<=[.)]) (?={OPTION_NAME})")
RAISES = re.compile(r"(?<=[.)]) (?=(?:Otherwise r|R)aises )")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", link_pages_above)
    app.connect("autodoc-process-docstring", mark_code)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("build-finished", write_llms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def link_pages_above(app: Sphinx, page: str, content: list[str]) -> None:
    up = "../" * page.count("/")
    content[0] = ABOVE.sub(lambda match: f"]({up}{match[1]}.md", content[0])


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
    in_code = False
    for paragraph in paragraphs(lines):
        was_in_code, in_code = in_code, is_code(paragraph)
        if in_code and not was_in_code:
            marked += [".. code-block:: python", ""]
        marked += [*(f"   {line}" for line in dedented(paragraph)), ""] if in_code else [*listed(paragraph), ""]
    lines[:] = marked


def listed(paragraph: list[str]) -> list[str]:
    """Return the paragraph with its options, "`name`: what it is.", as a list, and what it raises below."""
    text = " ".join(paragraph)
    if text.startswith(("- ", ">>>")):
        return paragraph
    about, *raises = RAISES.split(text, maxsplit=1)
    first, *options = OPTION.split(about)
    if first.startswith("`") and re.match(OPTION_NAME, first):
        first, options = "", [first, *options]
    if len(options) < 2:
        return [about, "", *raises]
    return [first, "", *(f"- {option}" for option in options), "", *raises]


def paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """Yield runs of lines: prose up to a blank line, and indented blocks with their blank lines."""
    block: list[str] = []
    for line in lines:
        indented = line.startswith("    ")
        if block and ((not line and not is_indented(block)) or (line and indented != is_indented(block))):
            yield trimmed(block)
            block = []
        if line or block:
            block.append(line)
    if block:
        yield trimmed(block)


def trimmed(block: list[str]) -> list[str]:
    return block if block[-1] else trimmed(block[:-1])


def is_indented(block: list[str]) -> bool:
    return block[0].startswith("    ")


def dedented(block: list[str]) -> list[str]:
    return textwrap.dedent("\n".join(block)).split("\n")


def is_code(block: list[str]) -> bool:
    if is_indented(block):
        return True
    text = "\n".join(block)
    if not re.search(r"[(=]", text) or text.startswith(">>>"):
        return False
    try:
        ast.parse(text)
    except SyntaxError:
        try:
            ast.parse(f"async def _():\n{textwrap.indent(text, '    ')}")
        except SyntaxError:
            return False
    return True


def write_llms(app: Sphinx, error: Exception | None) -> None:
    """Write llms.txt: each page with its title, its first sentence and the address of its Markdown."""
    if error or app.builder.name != "html":
        return
    docs, sources = Path(app.srcdir), Path(app.outdir, "_sources")
    for page, file in INCLUDED.items():  # the page itself only names the file
        shutil.copyfile(docs.parent / file, sources / page)
    parts = ["# Leasehold", f"> {first_sentence((docs.parent / 'README.md').read_text())}"]
    for section in TREE.finditer((docs / "index.md").read_text()):
        caption = CAPTION.search(section["options"])
        assert caption, "a table of contents in docs/index.md has no caption"
        rows = [row(app, docs, page) for page in section["pages"].split()]
        parts.append(f"## {caption['name']}\n\n" + "\n".join(rows))
    (Path(app.outdir) / "llms.txt").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def row(app: Sphinx, docs: Path, page: str) -> str:
    text = (docs / f"{page}.md").read_text(encoding="utf-8")
    title = app.env.titles[page].astext()
    about = first_sentence(text)
    return f"- [{title}]({app.config.html_baseurl}_sources/{page}.md)" + (f": {about}" if about else "")


def first_sentence(page: str) -> str:
    """Return the first sentence below the title, on one line; empty if the page starts with something else."""
    below = re.sub(r"\A# .*\n", "", page.lstrip())
    paragraph = " ".join(below.strip().partition("\n\n")[0].split())
    if not re.match(r"[A-Z`]", paragraph):
        return ""
    sentence = re.split(r"(?<=[.:])\s+(?=[A-Z])", paragraph)[0].rstrip(":")
    if sentence.startswith("```"):
        return ""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
