"""Every code block of every page runs, in the order of the page.

`python`: blocks that follow each other are one script. `sh`: run by bash, in the same folder; `make X` is only asked
whether it would run, `pip install X` whether such a package and extra is declared. A line "`shop.py`:" and an empty
line before a block write it to that file instead; readers see the name too. `text` is output, and `yaml` and
`dockerfile` are for other programs. `sql`, `lua` and others are refused. A page with `<!-- needs: fastapi -->`, and a
block below `<!-- with: celery -->`, run where these packages are installed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tenure.testing.server import RedisServer
from tests.support.launcher import Launcher

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(
    r"(?:^<!-- with: (?P<package>\w+) -->\n\n)?(?:^`(?P<file>[\w/.-]+)`:\n\n)?"
    r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


NOT_RUN = ("text", "yaml", "dockerfile")


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    file: str | None
    package: str | None = None
    """The block is for this package: a script of its own in Python or for bash, or a file."""


def blocks_of(page: Path) -> list[Block]:
    found = [Block(m["kind"], m["text"], m["file"], m["package"]) for m in FENCE.finditer(page.read_text())]
    merged: list[Block] = []
    for block in found:
        before = merged[-1] if merged else None
        if before and block.kind == before.kind == "python" and not any(map(alone, (before, block))):
            merged[-1] = Block("python", f"{before.text}\n{block.text}", None)
        else:
            merged.append(block)
    return merged


def alone(block: Block) -> bool:
    return bool(block.file or block.package)


def packages_of(page: Path) -> list[str]:
    needs = re.search(r"^<!-- needs: (.+) -->$", page.read_text(), re.MULTILINE)
    return needs[1].split() if needs else []


def check_install(line: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match = re.fullmatch(r"(?:python3? -m )?pip install '?(?P<name>[\w-]+|\.)(?:\[(?P<extras>[\w,-]+)\])?'?", line)
    assert match, line
    assert match["name"] in (project["name"], ".")
    assert set(filter(None, (match["extras"] or "").split(","))) <= set(project["optional-dependencies"])


def shell_lines(text: str) -> list[str]:
    """What bash is to run; what only a whole checkout or a registry could is checked here instead."""
    lines = []
    for line in text.splitlines():
        command = line.split("#")[0].strip()
        if command.startswith("make "):
            subprocess.run(["make", "-n", "-C", str(ROOT), *shlex.split(command)[1:]], check=True, capture_output=True)
        elif "pip install" in command:
            check_install(command)
        else:
            lines.append(line)
    return lines


def run(command: list[str], folder: Path, environment: dict[str, str], timeout: int = 150) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def commands() -> Iterator[Path]:
    """A folder with `tenure`, and with `script` for the blocks in Python."""
    with tempfile.TemporaryDirectory(prefix="tenure-") as folder, closing(Launcher(Path(folder))):
        yield Path(folder)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path, server: RedisServer, commands: Path) -> None:
    for package in packages_of(page):
        pytest.importorskip(package)
    environment = {
        **os.environ,
        "TENURE_URL": server.url,
        "REDIS_URL": server.tcp_url,  # for the code of other queues
        "TENURE_NAMESPACE": re.sub(r"\W", "-", page.stem),
        "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONWARNINGS": "error",
        "PYTEST_ADDOPTS": "-o asyncio_default_fixture_loop_scope=function",  # without it pytest-asyncio warns
    }
    for number, block in enumerate(blocks_of(page)):
        if block.package and find_spec(block.package) is None:
            continue
        if block.file:
            write(tmp_path / block.file, block.text)
        elif block.package:
            others = environment | {"PYTHONWARNINGS": "ignore", "PYTHONPATH": str(tmp_path)}
            script = tmp_path / f"block{number}"
            write(script, block.text)
            interpreter = ["bash", "-euo", "pipefail"] if block.kind == "sh" else [sys.executable]
            run([*interpreter, str(script)], tmp_path, others)
        elif block.kind == "python":
            script = tmp_path / f"block{number}.py"
            script.write_text(block.text)
            run([str(commands / "script"), str(script)], tmp_path, environment)
        elif block.kind == "sh":
            run(["bash", "-euo", "pipefail", "-c", "\n".join(shell_lines(block.text))], tmp_path, environment)
        else:
            assert block.kind in NOT_RUN, f"a block of kind {block.kind!r}: use python, sh, {', '.join(NOT_RUN)}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def in_a_package(text: str, package: str, modules: set[str]) -> str:
    """The code, where these modules of its page are in a package."""
    names = "|".join(map(re.escape, sorted(modules))) or "(?!)"
    text = re.sub(rf"^(\s*)from ({names})(?=[\s.])", rf"\1from {package}.\2", text, flags=re.MULTILINE)
    return re.sub(rf"^(\s*)import ({names})$", rf"\1from {package} import \2", text, flags=re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_type_checkers_are_content_with_what_is_shown(tmp_path: Path) -> None:
    """The pages are packages, checked at once: each run of a type checker reads all of Tenure."""
    pytest.importorskip("mypy")
    for page in sorted(ROOT.glob("docs/howto/*.md")):
        if packages_of(page):
            continue  # these packages may have no types
        package = f"page_{page.stem.replace('-', '_')}"
        scripts = [block for block in blocks_of(page) if block.kind == "python" and not block.package]
        modules = {block.file.removesuffix(".py").partition("/")[0] for block in scripts if block.file}
        for number, block in enumerate(scripts):
            path = tmp_path / package / (block.file or f"block{number}.py")
            write(path, in_a_package(block.text, package, modules))
    command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", "--cache-dir=cache", "."]
    run(command, tmp_path, dict(os.environ), timeout=500)


def test_the_name_of_a_file_is_visible_above_its_block() -> None:
    for page in PAGES:
        assert "<!-- file:" not in page.read_text(), f"{page.name}: write a line `NAME`: above the block, not a comment"


def test_every_relative_link_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_row_of_a_table_has_the_cells_of_its_header() -> None:
    for page in PAGES:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE):
            cells = {len(re.split(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(cells) == 1, f"{page.name}: {table[:200]} (a | in a cell is written \\|)"
