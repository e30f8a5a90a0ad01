"""The `metrics` command: serves metrics of all queues, or prints files for Grafana and Prometheus."""

from __future__ import annotations

import asyncio
from importlib.resources import files

import click

from tenure.app.app import Tenure
from tenure.cli.errors import note
from tenure.cli.logs import set_up_logging
from tenure.cli.output.tables import Answer
from tenure.cli.reach import reaching
from tenure.manage.fleet import FleetReader
from tenure.metrics.exposition import check_prometheus
from tenure.processes.config import HERE
from tenure.processes.metrics import metrics_port
from tenure.runtime.signals import on_signals


@click.option("--port", type=click.IntRange(0, 65_535), default=9464, show_default=True, help="The port; 0: any.")
@click.option("--metrics-host", default=HERE, show_default=True, help="The address to listen at.")
@click.option("--print-dashboard", is_flag=True, help="Print a dashboard for Grafana, as JSON, and end.")
@click.option("--print-alerts", is_flag=True, help="Print alert rules for Prometheus, as YAML, and end.")
@click.option(
    "--pages", metavar="URL", default="", help="With --print-alerts: where you serve the site of these pages."
)
@reaching(streams=True)
def metrics(
    port: int, metrics_host: str, print_dashboard: bool, print_alerts: bool, pages: str, app: Tenure, as_json: bool
) -> Answer | None:
    """\b
    tenure metrics                                    at http://127.0.0.1:9464/metrics
    tenure metrics --metrics-host 0.0.0.0             for a Prometheus on another machine
    tenure metrics --print-alerts > tenure-alerts.yml
    tenure metrics --print-dashboard > tenure.json    to import in Grafana

    One such process is enough, however many workers there are: it reads the queues from Redis, with at most three calls
    a second. What workers measure, such as run times, is served by `tenure worker --metrics-port`. Without
    authentication: let only Prometheus reach the port. Needs `pip install 'tenure[prometheus]'`.
    """
    printed = {"dashboard.json": print_dashboard, "alerts.yml": print_alerts}
    if any(printed.values()):
        for name in (name for name, wanted in printed.items() if wanted):
            text = (files("tenure.integrations") / "prometheus" / name).read_text()
            click.echo(text.replace("runbook_url: ", f"runbook_url: {pages and pages.rstrip('/') + '/'}"), nl=False)
        return None
    check_prometheus()
    set_up_logging("info")
    asyncio.run(_serve(app, metrics_host, port))
    return None


async def _serve(app: Tenure, host: str, port: int) -> None:
    stopped = asyncio.Event()
    served = metrics_port("--port 9465", FleetReader(app).read)
    name = await served.open(host, port)
    note(f"Metrics are at http://{name}/metrics (Ctrl-C stops it).")
    with on_signals(stopped.set):
        await stopped.wait()
    served.close()
    await app.aclose()
