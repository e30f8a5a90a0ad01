"""What to run, and how what was seen is shown and kept."""

import pytest

from bench.crash import parse_only, variants_of
from bench.crash_scene import Observation
from bench.crash_table import BEGIN, END, PAGE, Row, cell, load, merge, save, table, written
from bench.remains import holds
from bench.roster import NAMES, Facts, Variant

LOST = Observation("lost", None, False, 180, ())
AGAIN = Observation("again", 2.345, True, 180, ())
FACTS = Facts("RQ", ("mark",), {"rq": "2"}, (Variant("default", "a"), Variant("more", "b")))


def row(name, variant="default", settings="s"):
    return Row(name, variant, name.upper(), {name: "1.0", "redis": "8"}, settings, AGAIN, LOST)


def test_peers_and_variants_are_chosen_by_name():
    assert parse_only("rq,celery:late") == [("rq", None), ("celery", "late")]
    assert parse_only("") == [(name, None) for name in NAMES]
    with pytest.raises(ValueError, match="no peer 'sidekiq': expected one of tenure"):
        parse_only("sidekiq")


def test_a_peer_without_a_variant_is_run_with_all_of_them():
    assert [one.name for one in variants_of("rq", FACTS, [("rq", None)])] == ["default", "more"]
    assert [one.name for one in variants_of("rq", FACTS, [("saq", None), ("rq", "more")])] == ["more"]
    with pytest.raises(ValueError, match="rq has no variant most: expected one of default, more"):
        variants_of("rq", FACTS, [("rq", "most")])


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (LOST, "**lost**"),
        (AGAIN, "runs again after 2.3 s"),
        (Observation("again", 61.0, False, 180, ()), "runs again after 61.0 s, does not finish"),
        (Observation("not yet", None, False, 180, ("key",)), "not within 3 minutes"),
        (Observation("not yet", None, False, 20, ("key",)), "not within 20 s"),
    ],
)
def test_every_outcome_has_words(seen, text):
    assert cell(seen) == text


def test_a_new_row_takes_the_place_of_the_old_one_in_the_order_of_the_peers():
    old = [row("tenure"), row("rq"), row("rq", "more"), row("saq")]
    rows = merge(old, [row("rq", settings="new"), row("rq", "more", settings="new")])
    assert [(one.name, one.variant, one.settings) for one in rows] == [
        ("tenure", "default", "s"),
        ("rq", "default", "new"),
        ("rq", "more", "new"),
        ("saq", "default", "s"),
    ]


def test_rows_are_kept_as_they_are(tmp_path):
    rows = [row("tenure"), row("rq")]
    save(rows, tmp_path / "results" / "crash.json")
    assert load(tmp_path / "results" / "crash.json") == rows
    assert load(tmp_path / "none.json") == []


def test_the_table_goes_between_its_marks_and_nothing_else_of_the_page_changes():
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert written(page, [row("rq")]) == f"before\n{BEGIN}\n\n{table([row('rq')])}\n\n{END}\nafter\n"
    assert "| RQ 1.0 (redis 8) | s | runs again after 2.3 s | **lost** |" in table([row("rq")])
    with pytest.raises(ValueError, match="no place for the table"):
        written("a page", [])


def test_the_page_shows_what_was_kept():
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, load()) == page
    assert load()[0].name == "tenure"


@pytest.mark.parametrize(
    "reply", [b"xtokenx", "token", [b"a", [b"b", b"token"]], {b"token": b"a"}, {b"a": [b"token"]}, {b"token"}]
)
def test_a_token_is_found_however_deep_a_reply_is(reply):
    assert holds(reply, b"token")


@pytest.mark.parametrize("reply", [None, 7, b"", [b"a", [b"b"]], {b"a": b"b"}])
def test_a_reply_without_the_token_does_not_hold_it(reply):
    assert not holds(reply, b"token")
