"""Apps that lie in something, or that a function makes: for a worker, its processes, and the commands."""

import pytest

JOBS = """
from tenure import Tenure

class Shop:
    def __init__(self):
        self.jobs = create_app()

    def make(self):
        return self.jobs

def create_app(queue="made"):
    app = Tenure()

    @app.task(name="double", queue=queue, run_in="process")
    def double(self: int, run: int = 2) -> int:
        return self * run

    return app

shop = Shop()
"""


@pytest.mark.parametrize(
    ("target", "processes"), [("jobs:create_app", 1), ("jobs:shop.jobs", 2), ("jobs:shop.make", 1)]
)
def test_every_command_finds_the_app(command, tenure, redis_url, tmp_path, target, processes):
    (tmp_path / "jobs.py").write_text(JOBS)
    command("enqueue", target, "double", '{"self": 21}', "--id", "a", url=redis_url).end()
    tenure("worker", target, "--burst", "--processes", str(processes), url=redis_url).end()
    shown = command("job", "made", "a", "--payload", "--app", target, url=redis_url).end().out
    assert "completed" in shown
    assert "42" in shown


GEVENT = """
patched = False

def patch_all():
    global patched
    patched = True

def is_module_patched(name):
    return patched
"""


@pytest.mark.parametrize("then", ["", "raise RuntimeError('cannot release un-acquired lock')"], ids=["loads", "fails"])
def test_an_app_that_patches_with_gevent_is_refused_by_that_name(tenure, redis_url, tmp_path, then):
    (tmp_path / "gevent").mkdir()
    (tmp_path / "gevent" / "__init__.py").touch()
    (tmp_path / "gevent" / "monkey.py").write_text(GEVENT)
    (tmp_path / "jobs.py").write_text(f"from gevent import monkey\nmonkey.patch_all()\n{then}\n{JOBS}")
    run = tenure("worker", "jobs:create_app", "--burst", url=redis_url).end(2)
    assert "calls gevent's monkey.patch_all" in run.err
    assert "Such programs can enqueue jobs." in run.err
