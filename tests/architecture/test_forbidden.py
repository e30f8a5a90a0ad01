"""What must not be in the repository would be found: `make check` runs the script that looks for it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rules() -> ModuleType:
    """scripts/forbidden.py, which `make check` runs."""
    spec = importlib.util.spec_from_file_location("forbidden", ROOT / "scripts" / "forbidden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Cut in two, so that this file does not break the rule that it tests.
TEXTS = (
    "see https://py" + "pi.org/project/x",
    "pip install --index" + "-url http://mirror x",
    "cd /wo" + "rk/main",
    'open("/ro' + 'ot/x")',
    "-----BEGIN RSA PRIVATE" + " KEY-----",
)
CODE = (
    "import pic" + "kle",
    "from mar" + "shal import loads",
    "ev" + "al('1')",
    "ex" + "ec('x = 1')",
    "import importlib\nimportlib.import_mo" + "dule('os')",
)


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_must_go_is_found(rules, tmp_path, text):
    (tmp_path / "notes.md").write_text(f"first line\n{text}\n")
    assert [line.split(":")[1] for line in rules.findings(tmp_path)] == ["2"]


@pytest.mark.parametrize("code", CODE)
def test_code_that_runs_data_is_found(rules, tmp_path, code):
    (tmp_path / "module.py").write_text(code)
    assert len(rules.findings(tmp_path)) == 1


def test_only_the_cli_loader_may_import_by_name(rules, tmp_path):
    loader = tmp_path / "src" / "tenure" / "cli" / "loader.py"
    loader.parent.mkdir(parents=True)
    loader.write_text("import importlib\nimportlib.import_mo" + "dule('os')")
    assert rules.findings(tmp_path) == []


@pytest.mark.parametrize("text", ["redis.eval('return 1', 0)", "a framework/work/flow", "client.script_exec()"])
def test_harmless_text_is_left_alone(rules, tmp_path, text):
    (tmp_path / "module.py").write_text(f'"""{text}"""\n')
    assert rules.findings(tmp_path) == []
