"""The trace of an enqueue continues in a job process: `tenure worker` with OpenTelemetry."""

from __future__ import annotations

from tenure import Tenure

JOBS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from tenure import Tenure, current_job
from tenure.integrations.otel import instrument

trace.set_tracer_provider(TracerProvider())
app = Tenure()
instrument(app, process_parent=True)

@app.task(run_in="process")
def write_trace() -> None:
    span = trace.get_current_span().get_span_context()
    with open("trace", "w") as file:
        file.write(f"{span.trace_id:032x} {current_job().headers['traceparent']}")
"""


def test_the_handler_in_a_job_process_is_in_the_trace_of_the_enqueue(tenure, redis_url, tmp_path):
    (tmp_path / "jobs.py").write_text(JOBS)
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    with Tenure(redis_url) as app:

        @app.task(name="jobs.write_trace")
        def write_trace() -> None: ...

        write_trace.using(headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}).enqueue()
    tenure("worker", "jobs:app", "--burst", url=redis_url).end()
    assert (tmp_path / "trace").read_text().split("-")[0] == f"{trace_id} 00"
