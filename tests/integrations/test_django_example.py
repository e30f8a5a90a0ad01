"""The project in examples/django, played: a form, its transaction, the outbox, the job, and the page of progress."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLAY = """
import re

import django
from django.core.management import call_command
from django.test import Client

django.setup()
call_command("migrate", verbosity=0)

from orders import tasks
from orders.models import Order

from tenure.integrations.django import app
from tenure.integrations.django.outbox import relayed_outbox
from tenure.outbox.relay import Relay
from tenure.testing import Drained

client = Client(enforce_csrf_checks=True)
seen = []


def page():
    return re.sub(r"\\s+", " ", client.get("/orders/1/").content.decode())


tasks.take = lambda order: seen.append(page())
token = re.search(r'value="(\\w+)"', client.get("/").content.decode())[1]
assert client.post("/", {"csrfmiddlewaretoken": token, "address": "nowhere", "items": 2}).status_code == 200
assert Order.objects.count() == 0
answer = client.post("/", {"csrfmiddlewaretoken": token, "address": "ada@example.org", "items": 2})
assert (answer.status_code, answer["location"]) == (302, "/orders/1/")
assert "The job is on its way." in page() and 'http-equiv="refresh"' in page()
outbox = relayed_outbox()
assert Relay(outbox, outbox.engine).step() == 1
assert "The job is ready." in page() and 'http-equiv="refresh"' in page()
assert app.testing().drain() == Drained(completed=1)
assert "0 of 2 packed. The job is active." in seen[0]
assert '<progress max="2.0" value="1.0"></progress> item 1 is packed' in seen[-1]
assert "2 of 2 packed. The job is completed." in page() and "refresh" not in page()
assert tasks.pack.get_result(f"orders:{Order.objects.get().job}").return_value == "parcel for ada@example.org"
assert client.get("/ops/")["location"].startswith("/admin/login/")
app.close()
"""


def test_the_project_plays(redis_url: str, tmp_path: Path) -> None:
    project = shutil.copytree(ROOT / "examples" / "django", tmp_path / "django")
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "shop.settings", "TENURE_URL": redis_url}
    command = [sys.executable, "-W", "error", "-c", PLAY]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
