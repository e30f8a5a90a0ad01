"""Large payloads with a real worker, its job processes and `tenure clean --payloads`."""

import json
from pathlib import Path

from tenure import FileStore, State, Tenure

JOBS = """
from tenure import FileStore, Tenure

app = Tenure(large=FileStore("payloads"), max_payload=1_000)

@app.task
async def here(text: str) -> int:
    return len(text)

@app.task(run_in="process")
def apart(text: str) -> int:
    return len(text)
"""


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_workers_and_their_job_processes_read_and_delete_large_payloads(tenure, run, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    store = FileStore(tmp_path / "payloads")
    with Tenure(redis_url, large=store, max_payload=1_000) as app:
        jobs = [
            app.task(name=f"jobs.{name}")(lambda text: len(text)).enqueue("x" * 5_000) for name in ("here", "apart")
        ]
        assert len(files(tmp_path / "payloads")) == 2
        assert f"/default/{jobs[0].id}/" in run("job", "default", jobs[0].id)[0]
        tenure("worker", "jobs:app", "--burst", url=redis_url).end()
        assert [job.result(timeout=0) for job in jobs] == [5_000, 5_000]
        assert [job.state() for job in jobs] == [State.COMPLETED, State.COMPLETED]
    assert files(tmp_path / "payloads") == []
    cleaned = run("clean", "--payloads", "--app", "jobs:app", "--json")[0]
    assert json.loads(cleaned) == {"deleted": 0, "used": 0, "unknown": 0}
