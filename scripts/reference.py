"""Writes the reference pages whose text the code already has: command line, settings, errors, log. `make docs` runs it.

With `--check` nothing is written, and the exit status says whether the pages are as they should be.
"""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from tenure import engines
from tenure.cli import commands
from tenure.cli.errors import Exit
from tenure.cli.table import COMMANDS
from tenure.core import errors, log_events
from tenure.core.features import Feature
from tenure.engines.kit.scripts import INCLUDE, lua_files
from tenure.engines.native.scripts import SCRIPTS
from tenure.metrics.counts import OTHER, TASKS_MAX
from tenure.metrics.families import BUCKETS, OF_BOTH, OF_FLEET, OF_WORKERS
from tenure.protocols.registry import ENTRIES, parse_protocol
from tenure.settings import Settings, variables
from tests.support import mutation

DOCS = Path(__file__).resolve().parents[1] / "docs"
MODELS = DOCS.parent / "proof" / "models"
ENGINES = Path(engines.__file__).parent
LUA = lua_files(ENGINES / "kit" / "lua") | lua_files(ENGINES / "native" / "lua")


def command_line() -> str:
    """What `--help` says, command by command."""
    parts = ["# Command line", "Written from `--help` by `make docs`; `make check` compares the two."]
    for name in ["", *COMMANDS, "help connection"]:
        words = name.split() if " " in name else [*name.split(), "--help"]
        runner = CliRunner(env={"COLUMNS": "102"})
        shown = runner.invoke(commands, words, prog_name="tenure", terminal_width=100, max_content_width=100)
        if shown.exit_code:
            raise SystemExit(f"tenure {' '.join(words)} failed: {shown.output}")
        parts += [f"## tenure {name}".rstrip(), f"```text\n{shown.output.rstrip()}\n```"]
    statuses = inspect.cleandoc(Exit.__doc__ or "").split("\n\n")[1]
    parts += [
        "## Exit status",
        "All commands end with one of these; their help has the details.",
        f"```text\n{statuses}\n```",
    ]
    parts += ["What `--json` prints is described in [JSON](json.md). Errors and notes go to stderr, as text."]
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    """Every setting: its environment variables, its default, its meaning."""
    lines = [
        "# Settings",
        "",
        "Each can be given to `Tenure(...)` by its name; what is not comes from the environment, then from the",
        "default. Times are seconds, sizes are bytes. Written by `make docs`; `make check` compares.",
        "",
        "| setting | environment | default | meaning |",
        "|---|---|---|---|",
    ]
    defaults = Settings()
    for name, variable in variables().items():
        names = ", then ".join(f"`{key}`" for key in variable.names)
        default = getattr(defaults, name)
        lines.append(f"| `{name}` | {names} | {'' if default is None else f'`{default}`'} | {variable.meaning} |")
    return "\n".join(lines) + "\n"


def error_tree() -> str:
    """The tree of errors, as the module draws it."""
    drawn = inspect.cleandoc(errors.__doc__ or "").split("\n\n")
    tree = inspect.cleandoc("\n" + drawn[1])
    return (
        "# Errors\n\nAll errors that Tenure raises, as one tree: catch as much of it as you mean. The module is\n"
        f"`tenure.core.errors`; each can be imported from `tenure`.\n\n```text\n{tree}\n```\n\n{drawn[-1]}\n"
    )


def protocols() -> str:
    """What each wire protocol supports, as its engine declares it."""
    engines = [parse_protocol(entry.words.example).engine(Settings()) for entry in ENTRIES]
    lines = [
        "# Protocols",
        "",
        "What each wire protocol supports. Tenure refuses the rest with `UnsupportedFeature`. What you can rely on "
        "with other clients on the same queues: [the wire formats side by side](../protocols/README.md).",
        "Written by `make docs` from the declarations of the engines; `make check` compares.",
        "",
        "| feature | | " + " | ".join(engine.name for engine in engines) + " |",
        "|---" * (len(engines) + 2) + "|",
    ]
    for feature in Feature:
        marks = ["yes" if feature in engine.features else "" for engine in engines]
        lines.append(f"| `{feature}` | {feature.label} | " + " | ".join(marks) + " |")
    lines += [
        "",
        "## Options",
        "",
        "A protocol is a value (`QueueFarm(delete_jobs=False)`) or text, for `TENURE_PROTOCOL` and `--protocol`. In "
        "the text, options follow a question mark, with `&` between them: `queue-farm:mails?delete_jobs=false`. "
        "Characters of names are escaped as in a URL (`%3F` is a question mark).",
        "",
        "| text | options |",
        "|---|---|",
    ]
    for entry in ENTRIES:
        options = ", ".join(f"`{option}`".replace("|", "` or `") for option in entry.words.options)
        lines.append(f"| `{entry.words.syntax}` | {options} |")
    return "\n".join(lines) + "\n"


def log() -> str:
    """Every log event, as the registry has it."""
    parts = [
        "# Log events",
        "Every event that Tenure logs, by its name (`event` in JSON), with its message. [Logs](../howto/logging.md) "
        "shows the lines. `queue`, `task` and `id` name the job. `error` is the type of an error, and for errors of "
        "Redis or of the worker also its text. `at` is the place in your code, or an address. "
        "The logger is `tenure.worker`. Written by `make docs` "
        "from `tenure/core/log_events.py`; `make check` compares.",
    ]
    sections = {
        "Outcomes": (log_events.OUTCOMES, ""),
        "The worker": (log_events.WORKER, ""),
        "The drop-in client of redis-work-queue": (log_events.DROP_IN, "On the logger `tenure.compat`."),
        "Redis": (
            log_events.REDIS,
            "Events of a connection are on the logger `tenure.redis`, of workers and of every other program that has "
            "configured `logging`.",
        ),
        "The dashboard": (log_events.DASHBOARD, ""),
        "The parent process": (log_events.PARENT, "With a single worker process, most `info` lines are `debug`."),
    }
    for title, (table, note) in sections.items():
        rows = [
            f"| `{name}` | {logging.getLevelName(one.level).lower()} | {one.message} | {one.fields} |"
            for name, one in table.items()
        ]
        parts += [f"## {title}", note, "\n".join(["| event | level | message | more |", "|---|---|---|---|", *rows])]
    return "\n\n".join(filter(None, parts)) + "\n"


def metrics() -> str:
    """Every metric, as the tables have it."""
    parts = [
        "# Metrics",
        "What Tenure serves for [Prometheus](../howto/prometheus.md). At most "
        f"{TASKS_MAX} values of `task`, the rest is `{OTHER}`; `task` is empty for raw payloads. Counters begin at 0 "
        "when the process that serves them starts. The buckets of histograms end at "
        f"{', '.join(f'{bound:g}' for bound in BUCKETS)} seconds. Written by `make docs` from "
        "`tenure/metrics/families.py`; `make check` compares.",
    ]
    sections = {
        "Workers: `tenure worker --metrics-port`": OF_WORKERS,
        "The fleet: `tenure metrics`": OF_FLEET,
        "Both": OF_BOTH,
    }
    for title, table in sections.items():
        rows = [
            f"| `{name}` | {', '.join(f'`{label}`' for label in one.labels)} | {one.kind} | {one.help} |"
            for name, one in table.items()
        ]
        parts += [f"## {title}", "\n".join(["| metric | labels | type | meaning |", "|---|---|---|---|", *rows])]
    parts += [
        "`outcome`: completed, failed, broken or cancelled. `state` of jobs and lanes: as in `tenure info`. `call`: "
        "the name of a [script](../explanation/lua.md); calls that wait for jobs are left out. "
        "`tenure_reclaimed_total` and `tenure_schedules_missed_total` are kept in Redis, and count since the queue or "
        "the schedule exists."
    ]
    return "\n\n".join(parts) + "\n"


def lua() -> str:
    """The scripts of the native engine, the libraries of each, and what these are for."""
    rows, users = [], Counter[str]()
    for name in SCRIPTS:
        libraries = _libraries_of(_lua_file(f"{name}.lua"), {})
        users.update(libraries.keys())
        paths = [_lua_file(f"{name}.lua"), *libraries.values()]
        lines = sum(len(path.read_text().splitlines()) for path in paths)
        rows.append(
            f"| `{_place(paths[0])}` | {_purpose(paths[0])} | {len(paths)} | {lines} | {' '.join(sorted(libraries))} |"
        )
    shown = [
        f"| `{_place(path)}` | {_purpose(path)} | {len(path.read_text().splitlines())} | {users[name]} |"
        for name in sorted(users)
        for path in [_lua_file(f"lib/{name}.lua")]
    ]
    return "\n".join(
        [
            "# Lua scripts of the native engine",
            "",
            "Every change of a job is one Lua script, which Redis runs whole or not at all. A script is a file of",
            "`src/tenure/engines/native/lua` (or `kit/lua`, which the engines share) with its libraries in place.",
            "Written by `make docs`; `make check` compares.",
            "",
            "Read `claim` and `settle` first: these plain scripts are for queues with plain jobs only. They refuse all",
            "else before they change anything; the engine then calls `claim_full` or `settle_full`: see",
            "[decision 0028](../decisions/0028-plain-and-full-scripts.md).",
            "",
            "| script | what it does | files | lines | libraries |",
            "|---|---|---|---|---|",
            *sorted(rows),
            "",
            "## Libraries",
            "",
            "`scripts`: how many of the scripts above have it.",
            "",
            "| library | what it is for | lines | scripts |",
            "|---|---|---|---|",
            *shown,
            "",
        ]
    )


def models() -> str:
    """The page of the models, with what `make proof` expects, and which lines of the code each step stands for."""
    page = (DOCS / "explanation" / "models.md").read_text()
    expected = []
    for path in sorted(MODELS.glob("*.cfg"), key=lambda path: path.stem.partition("-")):
        result, _, what = path.read_text().partition("\n")[0].removeprefix("\\* ").partition(": ")
        expected.append(f"| `{path.stem}` | {result} | {what} |")
    steps = [row for path in sorted(MODELS.glob("*.tla")) for row in _steps_of(path)]
    for name, rows in {"configurations": expected, "steps": steps}.items():
        begin, end = f"<!-- {name}: written by make docs -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        header = "\n".join(rest.splitlines()[:3])
        page = f"{before}{begin}{header}\n" + "\n".join(rows) + f"\n\n{end}{rest.partition(end)[2]}"
    return page


def _steps_of(model: Path) -> list[str]:
    """The steps of a model. A comment `@ FILE | TEXT` above a definition names the line that it stands for."""
    rows, lines = [], []
    for text in model.read_text().splitlines():
        definition = re.match(r"(\w+)(?:\([\w, ]*\))? ==", text)
        if text.startswith("\\* @ "):
            lines.append(text.removeprefix("\\* @ ").split(" | ", 1))
        elif definition and lines:
            rows += [f"| {model.stem} | {definition[1]} | {_line_of(model, *line)} |" for line in lines]
            lines = []
    return rows


def _line_of(model: Path, name: str, wanted: str) -> str:
    path = ENGINES / "native" / "lua" / name if name.endswith(".lua") else Path()
    path = path if path.is_file() else ENGINES.parent / name
    found = [n for n, line in enumerate(path.read_text().splitlines(), 1) if wanted == line.strip()]
    if len(found) != 1:
        raise SystemExit(f"{model.name}: {name} must have one line {wanted!r}: does the model hold for it?")
    shown = wanted.replace("|", "\\|")
    return f"`{name}` | {found[0]} | `{shown}`"


def _lua_file(name: str) -> Path:
    found = LUA[name]
    assert isinstance(found, Path)
    return found


def _place(path: Path) -> str:
    """The subject and the name of a file."""
    within = path.relative_to(next(one for one in path.parents if one.name == "lua")).with_suffix("")
    return within.as_posix().replace("lib/", "")


def _libraries_of(path: Path, found: dict[str, Path]) -> dict[str, Path]:
    for _, names in INCLUDE.findall(path.read_text()):
        for name in names.split():
            if name not in found:
                found[name] = _lua_file(f"lib/{name}.lua")
                _libraries_of(found[name], found)
    return found


def _purpose(path: Path) -> str:
    """The first sentence of a file."""
    head = []
    for line in path.read_text().splitlines():
        if not line.startswith("-- ") or re.match("-- (KEYS|ARGV|Needs|Defines|Sets|Redis)", line):
            break
        head.append(line.removeprefix("-- "))
    sentence = re.split(r"(?<=[.]) ", " ".join(head).partition(": ")[2])[0].replace("|", "\\|")
    return sentence[:1].upper() + sentence[1:]


PAGES = {
    "reference/command-line.md": command_line,
    "reference/log.md": log,
    "reference/metrics.md": metrics,
    "reference/settings.md": settings,
    "reference/errors.md": error_tree,
    "reference/protocols.md": protocols,
    "explanation/lua.md": lua,
    "explanation/models.md": models,
    "explanation/mutants.md": mutation.page,
}


def main() -> int:
    wrong = 0
    for name, make in PAGES.items():
        page, text = DOCS / name, make()
        if "--check" not in sys.argv:
            page.write_text(text)
        elif not page.exists() or page.read_text() != text:
            print(f"docs/{name} is not what the code says: run `make docs`", file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
