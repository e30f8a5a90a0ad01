"""scripts/words.py, which `make check` runs: the words of the style guide's list may only become fewer."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "scripts" / "words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["words"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository that uses `tell` five times: a page, the changelog, a docstring, an f-string, a Lua comment."""
    for folder in ("docs/howto", "src/lua", "scripts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/howto/page.md").write_text("They tell it.\n\n```python\ntell()  # tell\n```\n\nCall `tell()`.\n")
    (tmp_path / "CHANGELOG.md").write_text("# Log\n\n## Unreleased\n\nTold.\n\n## 0.1\n\nTell, tell.\n")
    (tmp_path / "src/code.py").write_text('"""Code that tells."""\ntell = f"{tell} was told"\ntell("tell")\n')
    (tmp_path / "src/lua/code.lua").write_text("local tell = 1 -- telling\n")
    (tmp_path / "scripts/words.txt").write_text("tell, tells, told, telling | 5 | report\n")
    return tmp_path


def test_a_form_with_a_capital_counts_the_begins_of_sentences_only(checker, tree, capsys):
    (tree / "scripts/words.txt").write_text("Of, Behind | 1 | the subject first\n")
    page = tree / "docs/howto/page.md"
    page.write_text("One of many. Of many one.\n")
    assert checker.main(tree, write=False) == 0
    page.write_text("Of many one. Behind it.\n")
    assert checker.main(tree, write=False) == 1
    assert "'Of': 2 uses, at most 1" in capsys.readouterr().out


def test_the_uses_that_are_left_pass(checker, tree, capsys):
    assert checker.main(tree, write=False) == 0
    assert capsys.readouterr().out == ""


def test_a_rise_fails_and_names_the_better_word(checker, tree, capsys):
    (tree / "README.md").write_text("Tell them.")
    assert checker.main(tree, write=False) == 1
    assert "'tell': 6 uses, at most 5. Write report." in capsys.readouterr().out


def test_a_form_over_two_lines_is_found(checker, tree):
    (tree / "scripts/words.txt").write_text("give back, gives back | 0 | release\n")
    (tree / "src/code.py").write_text("# The worker gives\n# back what it holds.\n")
    assert checker.main(tree, write=False) == 1


def test_a_fall_asks_for_a_lower_number_and_write_lowers_it(checker, tree, capsys):
    (tree / "docs/howto/page.md").write_text("They report it.")
    assert checker.main(tree, write=False) == 0
    assert "Lower it" in capsys.readouterr().out
    assert checker.main(tree, write=True) == 0
    assert "| 4 |" in (tree / "scripts/words.txt").read_text()


def test_write_never_raises_a_number(checker, tree):
    (tree / "README.md").write_text("Tell them.")
    assert checker.main(tree, write=True) == 1
    assert "| 5 |" in (tree / "scripts/words.txt").read_text()
