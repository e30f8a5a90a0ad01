"""Jobs in your SQL transaction, and effects once. Needs `pip install 'tenure[sql]'`.

outbox = Outbox(app, engine=engine)

with Session.begin() as session:
    session.add(order)
    outbox.enqueue(session, confirm.call(order.id))  # a job if, and only if, the transaction commits
"""

from __future__ import annotations

from importlib.util import find_spec

from tenure.core.errors import NotConfigured

if find_spec("sqlalchemy") is None:
    raise NotConfigured(
        "tenure.outbox needs the package sqlalchemy, which is not installed. Install it with "
        "`pip install 'tenure[sql]'`."
    )

from tenure.outbox.effects import First as First  # noqa: E402
from tenure.outbox.effects import aonce as aonce  # noqa: E402
from tenure.outbox.effects import clean as clean  # noqa: E402
from tenure.outbox.effects import once as once  # noqa: E402
from tenure.outbox.outbox import Outbox as Outbox  # noqa: E402
from tenure.outbox.outbox import OutboxHandle as OutboxHandle  # noqa: E402
from tenure.outbox.outbox import OutboxStatus as OutboxStatus  # noqa: E402
from tenure.outbox.outbox import RefusedRow as RefusedRow  # noqa: E402
from tenure.outbox.relay import Relay as Relay  # noqa: E402

__all__ = ["First", "Outbox", "OutboxHandle", "OutboxStatus", "RefusedRow", "Relay", "aonce", "clean", "once"]
