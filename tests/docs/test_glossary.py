"""The glossary has each word once."""

import re
from collections import Counter
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_each_word_has_one_meaning():
    words, _, _ = GLOSSARY.read_text(encoding="utf-8").partition("## States")
    rows = re.findall(r"^\| ([a-z][a-z, -]*) \| ", words, re.MULTILINE)
    counts = Counter(word for row in rows if row != "word" for word in row.split(", "))
    assert len(counts) > 50
    assert {"limit", "share", "partition", "header", "drain"} <= set(counts)
    assert {word for word, count in counts.items() if count > 1} == set()
