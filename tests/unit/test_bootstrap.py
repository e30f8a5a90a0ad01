"""How processes of Tenure find the Tenure that started them, and nothing else than Python would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import tenure
from tenure.bootstrap import FILE, command_of

PROBE = """
import json, os, sys
import tenure
folder = {folder!r}
print(json.dumps([__name__, __spec__.name, sys.argv[1:], tenure.__file__, sys.path[0], sys.path.count(folder)]))
"""


def run(tmp_path: Path, *arguments: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    command = command_of(*arguments)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_tenure_on_the_path_does_not_get_in(tmp_path):
    (tmp_path / "tenure.py").write_text("raise RuntimeError('another Tenure')")
    assert tenure.__version__ in run(tmp_path, "tenure", "--version", PYTHONPATH=str(tmp_path))


def test_modules_of_the_current_directory_do_not_get_in(tmp_path):
    (tmp_path / "uuid.py").write_text("raise RuntimeError('not the standard uuid')")
    run(tmp_path, "tenure", "--version")


def test_a_module_runs_as_the_program_with_its_arguments(tmp_path):
    folder, elsewhere = str(FILE.parent.parent), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "probe.py").write_text(PROBE.format(folder=folder))
    printed = run(tmp_path, "probe", "one", "-x", PYTHONPATH=str(elsewhere))
    name, spec, arguments, file, first, times = json.loads(printed)
    assert (name, spec, arguments) == ("__main__", "probe", ["one", "-x"])
    assert Path(file) == FILE.parent / "__init__.py"
    assert (first, times) == (str(elsewhere), 1)


def test_it_runs_with_the_options_of_this_python(tmp_path):
    script = "from tenure.bootstrap import command_of; print(*command_of('x'))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert {"-Werror", "dev"} <= set(done.stdout.split())
