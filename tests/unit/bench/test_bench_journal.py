"""The journal of the jobs: what adapters write is what the run reads."""

import pytest

from bench.journal import Journal, Line, parse
from bench.peers import contract


def test_what_a_job_notes_is_read_back(tmp_path, monkeypatch):
    monkeypatch.setenv("BENCH_WORKER", "w1")
    journal = Journal(tmp_path / "journal")
    contract.mark(str(journal.path), "t1", 0)
    (start,) = journal.lines("start", "t1")
    (end,) = journal.lines("end", "t1")
    assert (start.worker, end.worker) == ("w1", "w1")
    assert start.at <= end.at
    assert journal.lines("end", "t2") == []


def test_a_line_that_is_being_written_is_left_for_later():
    assert parse("start t w 1.5\nend t w") == [Line("start", "t", "w", 1.5)]


@pytest.mark.parametrize("text", ["nonsense\n", "middle t w 1.5\n", "start t w soon\n"])
def test_anything_else_is_an_error(text):
    with pytest.raises(ValueError, match=r"start|end|float"):
        parse(text)


def test_waiting_answers_the_line_asked_for_or_none_when_the_time_is_over(tmp_path):
    path = tmp_path / "journal"
    path.write_text("start t w1 1.0\nstart t w2 2.0\n")
    times = iter([0.0, 1.0, 11.0])
    journal = Journal(path, clock=lambda: next(times))
    assert journal.wait("start", "t", 2, 10) == Line("start", "t", "w2", 2.0)
    assert journal.wait("start", "t", 3, 9) is None


def test_jobs_that_do_nothing_name_no_journal_and_all_others_do(monkeypatch):
    monkeypatch.setenv("BENCH_JOURNAL", "journal")
    monkeypatch.setenv("BENCH_TOKEN", "t")
    assert contract.jobs_of("sync", 3) == [("", "t", 0.0)] * 3
    assert contract.jobs_of("mark", 2) == [("journal", "t", 0.0)] * 2


def test_a_ping_waits_until_the_one_before_has_run(monkeypatch, tmp_path):
    journal = tmp_path / "journal"
    monkeypatch.setenv("BENCH_JOURNAL", str(journal))
    sent: list[float] = []
    pings = contract.pings(2, sent)
    assert next(pings) == (str(journal), "p0", 0.0)
    monkeypatch.setattr(contract, "PING_WAIT_S", 0.05)
    with pytest.raises(TimeoutError, match="job 0 had not run"):
        next(pings)
    pings = contract.pings(2, sent)
    next(pings)
    contract.note(str(journal), "end", "p0")
    assert next(pings)[1] == "p1"
    assert len(sent) == 3
