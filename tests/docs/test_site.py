"""The pages name what is public. `make site` checks links and the table of contents."""

import inspect
import re
from pathlib import Path
from typing import Any

import tenure
from scripts.site_pages import first_sentence, mark_code
from tenure.app.policy import TaskOptions
from tenure.client.options import UsingOptions

DOCS = Path(__file__).parents[2] / "docs"
API = DOCS / "reference" / "api"


def test_the_reference_has_each_public_name_once():
    directive = re.compile(r"^\.\. (?:auto\w+|py:data):: tenure\.(\w+)$", re.MULTILINE)
    names = sorted(name for page in API.glob("*.md") for name in directive.findall(page.read_text()))
    assert names == sorted(set(tenure.__all__) - {"__version__"})


def test_what_is_not_here_yet_is_not_here():
    rows = (DOCS / "howto" / "not-here-yet.md").read_text().splitlines()
    missing = {name for row in rows if row.startswith("|") for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    here = {*tenure.__all__, *TaskOptions.__annotations__, *UsingOptions.__annotations__}
    assert missing & here == set()


def test_the_list_of_guides_has_every_guide():
    guides = DOCS / "howto"
    listed = re.findall(r"\]\((\S+\.md)\)", (guides / "README.md").read_text())
    assert sorted(listed) == sorted(page.name for page in guides.glob("*.md") if page.name != "README.md")


FIELD_WORDS = {
    "../explanation/reliability": "at least once, exactly once, idempotent",
    "../explanation/crash-recovery": "visibility timeout",
    "errors": "failed jobs, dead letter, poison",
    "monitor": "monitoring, alert, dashboard, Prometheus, metrics",
    "autoscaling": "autoscaling, autoscaler, KEDA, HorizontalPodAutoscaler",
    "limits": "rate limit, concurrency limit",
    "schedules": "cron, periodic tasks",
    "unique": "deduplication, debounce, throttle",
    "deploy": "graceful shutdown, systemd, Kubernetes, health",
    "isolate": "timeout, memory leak, isolation",
    "testing": "unit test, pytest",
    "retries": "exponential backoff",
    "priorities": "priorities",
    "lanes": "FIFO",
    "delays": "ETA, countdown",
    "check": "eviction, persistence, security",
    "async": "bulk",
    "logging": "log",
}
"""By guide: what people search for. The search puts a page first that has the words in its title or a heading."""


def test_guides_have_the_words_of_the_field_in_their_headings():
    for page, words in FIELD_WORDS.items():
        text = re.sub(r"^```.*?^```$", "", (DOCS / "howto" / f"{page}.md").read_text(), flags=re.MULTILINE | re.DOTALL)
        headings = "\n".join(re.findall(r"^#+ (.+)$", text, re.MULTILINE)).lower()
        assert [word for word in words.split(", ") if word.lower() not in headings] == [], page


def as_on_the_site(docstring):
    lines = inspect.cleandoc(docstring).split("\n")
    app: Any = None
    mark_code(app, "function", "f", None, None, lines)
    return re.sub(r"\n{2,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def test_examples_of_docstrings_become_code_and_stay_whole():
    shown = as_on_the_site("""Send a*b.

        class A:
            x = 1

            y = 2

    And more.
    """)
    assert shown == (
        "Send a\\*b.\n\n.. code-block:: python\n\n   class A:\n       x = 1\n\n       y = 2\n\nAnd more.\n"
    )
    assert ".. code-block:: python\n\n   app.close()" in as_on_the_site("Close.\n\napp.close()")


def test_options_become_a_list_and_errors_a_line():
    shown = as_on_the_site("Send. `a`: the first, or `c`. `b` and `c`: others. Raises `Lost` if it is lost.")
    assert shown == "Send.\n\n- `a`: the first, or `c`.\n- `b` and `c`: others.\n\nRaises `Lost` if it is lost.\n"


def test_llms_txt_has_the_first_sentence_of_a_page():
    assert first_sentence("# Lanes\n\nA [lane](lanes.md) is\nordered. It waits.") == "A lane is ordered."
    assert first_sentence("# Lanes\n\n```sh\ntenure\n```") == ""
