"""Every code block of every page runs, in the order of the page.

`python`: blocks that follow each other are one script. `sh`: run by bash, in the same folder; `make X` is only asked
whether it would run, `pip install X` whether such a package and extra is declared. `<!-- file: NAME -->` on the line
before a block writes it to that file instead. `text` is output, and `yaml` and `dockerfile` are for other programs.
`sql`, `lua` and others are refused. A page with `<!-- needs: fastapi -->` runs where these packages are installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packaging.conftest import made_once

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


NOT_RUN = ("text", "yaml", "dockerfile")


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    file: str | None


def blocks_of(page: Path) -> list[Block]:
    found = [Block(m["kind"], m["text"], m["file"]) for m in FENCE.finditer(page.read_text())]
    merged: list[Block] = []
    for block in found:
        before = merged[-1] if merged else None
        if before and block.kind == before.kind == "python" and not block.file and not before.file:
            merged[-1] = Block("python", f"{before.text}\n{block.text}", None)
        else:
            merged.append(block)
    return merged


def packages_of(page: Path) -> list[str]:
    needs = re.search(r"^<!-- needs: (.+) -->$", page.read_text(), re.MULTILINE)
    return needs[1].split() if needs else []


def check_install(line: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match = re.fullmatch(r"(?:python3? -m )?pip install '?(?P<name>[\w-]+)(?:\[(?P<extras>[\w,-]+)\])?'?", line)
    assert match, line
    assert match["name"] == project["name"]
    assert set(filter(None, (match["extras"] or "").split(","))) <= set(project["optional-dependencies"])


def shell_lines(text: str) -> list[str]:
    """What bash is to run; what only a whole checkout or a registry could is checked here instead."""
    lines = []
    for line in text.splitlines():
        command = line.split("#")[0].strip()
        if command.startswith("make "):
            subprocess.run(["make", "-n", "-C", str(ROOT), *command.split()[1:]], check=True, capture_output=True)
        elif "pip install" in command:
            check_install(command)
        else:
            lines.append(line)
    return lines


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks_of(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path, redis_url: str) -> None:
    for package in packages_of(page):
        pytest.importorskip(package)
    environment = {
        **os.environ,
        "LEASEHOLD_URL": redis_url,
        "LEASEHOLD_NAMESPACE": re.sub(r"\W", "-", page.stem),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
        "PYTEST_ADDOPTS": "-o asyncio_default_fixture_loop_scope=function",  # without it pytest-asyncio warns
    }
    for number, block in enumerate(blocks_of(page)):
        if block.file:
            write(tmp_path / block.file, block.text)
        elif block.kind == "python":
            script = tmp_path / f"block{number}.py"
            script.write_text(block.text)
            run([sys.executable, str(script)], tmp_path, environment)
        elif block.kind == "sh":
            run(["bash", "-euo", "pipefail", "-c", "\n".join(shell_lines(block.text))], tmp_path, environment)
        else:
            assert block.kind in NOT_RUN, f"a block of kind {block.kind!r}: use python, sh, {', '.join(NOT_RUN)}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/howto/*.md")), ids=lambda page: page.stem)
def test_type_checkers_are_content_with_what_is_shown(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pytest.importorskip("mypy")
    if packages_of(page):
        pytest.skip("these packages may have no types")
    scripts = [block for block in blocks_of(page) if block.kind == "python"]
    for number, block in enumerate(scripts):
        write(tmp_path / (block.file or f"block{number}.py"), block.text)
    if scripts:
        files = [str(path) for path in tmp_path.rglob("*.py")]
        with made_once(tmp_path_factory, "mypy") as cache:  # the first reads Leasehold; in turns, so that only it does
            command = [sys.executable, "-m", "mypy", "--strict", "--explicit-package-bases", f"--cache-dir={cache}"]
            run([*command, *files], tmp_path, dict(os.environ))


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
