"""Apps that lie in something, or that a function makes: for a worker, its processes, and the commands."""

import pytest

JOBS = """
from leasehold import Leasehold

class Shop:
    def __init__(self):
        self.jobs = create_app()

    def make(self):
        return self.jobs

def create_app(queue="made"):
    app = Leasehold()

    @app.task(name="double", queue=queue, run_in="process")
    def double(self: int, run: int = 2) -> int:
        return self * run

    return app

shop = Shop()
"""


@pytest.mark.parametrize("target", ["jobs:create_app", "jobs:shop.jobs", "jobs:shop.make"])
@pytest.mark.parametrize("processes", [[], ["--processes", "2"]], ids=["alone", "supervised"])
def test_every_command_finds_the_app(leasehold, redis_url, tmp_path, target, processes):
    (tmp_path / "jobs.py").write_text(JOBS)
    leasehold("enqueue", target, "double", '{"self": 21}', "--id", "a", url=redis_url).end()
    leasehold("worker", target, "--burst", *processes, url=redis_url).end()
    shown = leasehold("job", "made", "a", "--payload", "--app", target, url=redis_url).end().out
    assert "completed" in shown
    assert "42" in shown
