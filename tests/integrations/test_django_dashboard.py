"""The dashboard under a URL of Django: its permissions are the roles, under WSGI and under ASGI."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.test import AsyncRequestFactory, Client, override_settings

from tests.support.django_project import AnonymousUser, Permission, Site, User, site
from tests.support.django_site import tasks

__all__ = ["site"]
HEADERS = {"Sec-Fetch-Site": "same-origin"}


def visitor(*permissions: str) -> Client:
    """A browser of a user with these permissions."""
    user = User.objects.create_user("ada")
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="tenure", codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


def cancel(client: Client, id: str) -> Any:
    body = json.dumps({"select": {"queue": "default", "id": id}})
    return client.post("/ops/api/v1/actions/cancel", body, content_type="application/json", headers=HEADERS)


def test_who_is_not_logged_in_is_sent_to_the_login(site: Site) -> None:
    answer = Client().get("/ops/jobs?queue=default")
    assert (answer.status_code, answer["location"]) == (302, "/accounts/login/?next=/ops/jobs%3Fqueue%3Ddefault")
    assert Client().get("/ops/api/v1/queues").status_code == 403


def test_who_has_no_permission_is_refused(site: Site) -> None:
    assert visitor().get("/ops/").status_code == 403


def test_a_viewer_sees_jobs_and_changes_none(site: Site) -> None:
    id = tasks.add.enqueue(1).id.partition(":")[2]
    client = visitor("view")
    page = client.get("/ops/jobs?queue=default")
    assert (page.status_code, id in page.content.decode()) == (200, True)
    assert page["content-security-policy"].startswith("default-src 'self'")
    [style] = set(re.findall(r"static/dashboard[^\"]*css", page.content.decode()))
    assert client.get(f"/ops/{style}").status_code == 200
    assert client.get(f"/ops/api/v1/jobs/default/{id}/payload").status_code == 403
    assert cancel(client, id).status_code == 403


def test_an_operator_changes_jobs_and_is_named_in_the_audit(site: Site) -> None:
    result = tasks.add.enqueue(1)
    id = result.id.partition(":")[2]
    client = visitor("operate")
    assert client.get(f"/ops/api/v1/jobs/default/{id}/payload").status_code == 200
    answer = cancel(client, id)
    assert answer.status_code == 200, answer.content
    result.refresh()
    assert result.status == "FAILED"
    assert "ada" in client.get("/ops/audit").content.decode()


def test_an_action_from_another_site_is_refused(site: Site) -> None:
    client = visitor("operate")
    answer = client.post("/ops/api/v1/actions/cancel", "{}", content_type="application/json")
    assert answer.status_code == 403


def test_under_wsgi_there_is_no_stream_of_changes(site: Site) -> None:
    assert visitor("view").get("/ops/api/v1/events").status_code == 501


def test_title_and_redacted_fields_come_from_the_settings(site: Site) -> None:
    client = visitor("view")
    with override_settings(TENURE={"url": site.url, "dashboard": {"title": "Jobs of the shop"}}):
        assert "Jobs of the shop" in client.get("/ops/").content.decode()


async def test_under_asgi_the_changes_arrive(site: Site) -> None:
    from tenure.integrations.django.dashboard import show

    request = AsyncRequestFactory().get("/ops/api/v1/events")
    request.user = AnonymousUser()
    assert (await sync_to_async(show)(request, "api/v1/events")).status_code == 403
    request.user = User(username="ada", is_superuser=True)
    answer = await sync_to_async(show)(request, "api/v1/events")
    assert (answer.status_code, answer["content-type"]) == (200, "text/event-stream; charset=utf-8")
    events = aiter(answer)

    async def until(text: str) -> None:
        async with asyncio.timeout(30):
            while text not in (await anext(events)).decode():
                pass

    await until("retry:")
    await tasks.add.aenqueue(1)
    await until("queue:default")
    await events.aclose()


def test_the_permissions_need_no_further_migration(site: Site) -> None:
    call_command("makemigrations", "tenure", check=True, dry_run=True, verbosity=0)
    assert set(Permission.objects.filter(content_type__app_label="tenure").values_list("codename", flat=True)) == {
        "view",
        "operate",
    }
