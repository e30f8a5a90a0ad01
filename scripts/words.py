"""Counts the words that the style guide replaces, and fails when one of them is used more often than before.

    python scripts/words.py [--write] [DIR]

Each line of scripts/words.txt has the forms of a word, the most uses allowed, and the word of the field for it.
`--write` lowers the numbers to what is used now; it never raises one. Code in prose (`so`, or fenced) is skipped.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

LIST = "scripts/words.txt"
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Word:
    forms: tuple[str, ...]
    most: int
    better: str

    @property
    def pattern(self) -> re.Pattern[str]:
        forms = "|".join(re.escape(form).replace(r"\ ", r"\s+") for form in self.forms)
        # A form with a capital is the first word of a sentence.
        return re.compile(rf"\b(?:{forms})\b", re.NOFLAG if self.forms[0][0].isupper() else re.IGNORECASE)

    def __str__(self) -> str:
        return f"{', '.join(self.forms)} | {self.most} | {self.better}"


def words_of(text: str) -> list[Word]:
    rows = [line.split(" | ") for line in text.splitlines() if line and not line.startswith("#")]
    return [Word(tuple(forms.split(", ")), int(most), better) for forms, most, better in rows]


def prose(root: Path) -> Iterator[tuple[str, str]]:
    """Yield each file's name and its prose: pages, docstrings, strings with a space in them, and comments."""
    for page in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        text = page.read_text(encoding="utf-8")
        if page.name == "lua.md":  # it repeats the comments of the scripts
            continue
        yield page.relative_to(root).as_posix(), unreleased(text) if page.name == "CHANGELOG.md" else text
    for source in sorted(root.glob("src/**/*.py")):
        yield source.relative_to(root).as_posix(), in_python(source.read_text(encoding="utf-8"))
    for script in sorted(root.glob("src/**/*.lua")):
        comments = re.findall(r"--(?!@)(.*)", script.read_text(encoding="utf-8"))
        yield script.relative_to(root).as_posix(), "\n".join(comments)


def unreleased(changelog: str) -> str:
    return changelog.partition("\n## Unreleased")[2].partition("\n## ")[0]


def in_python(text: str) -> str:
    """Return comments and strings. Strings come from the tree, as Python 3.12 splits f-strings into other tokens."""
    constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    strings = [value for value in constants if isinstance(value, str) and " " in value]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string.lstrip("#") for token in tokens if token.type == tokenize.COMMENT]
    return "\n\n".join(strings) + "\n\n" + "\n".join(comments)


def count(root: Path, words: list[Word]) -> dict[Word, dict[str, int]]:
    """Return the uses of each word, by file."""
    uses: dict[Word, dict[str, int]] = {word: {} for word in words}
    for name, text in prose(root):
        plain = CODE.sub("", text)
        for word in words:
            if found := len(word.pattern.findall(plain)):
                uses[word][name] = found
    return uses


def main(root: Path, write: bool) -> int:
    text = (root / LIST).read_text(encoding="utf-8")
    uses = count(root, words_of(text))
    failed = False
    for word, files in uses.items():
        now = sum(files.values())
        if now > word.most:
            failed = True
            most_used = sorted(files, key=lambda name: -files[name])[:5]
            print(f"{word.forms[0]!r}: {now} uses, at most {word.most}. Write {word.better}. Most in {most_used}")
        elif now < word.most and write:
            text = text.replace(str(word), str(replace(word, most=now)))
        elif now < word.most:
            print(f"{word.forms[0]!r}: {now} uses, {word.most} are allowed. Lower it: python scripts/words.py --write")
    if write:
        (root / LIST).write_text(text, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    folders = [argument for argument in sys.argv[1:] if argument != "--write"]
    sys.exit(main(Path(folders[0] if folders else "."), "--write" in sys.argv))
