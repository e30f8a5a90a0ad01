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

from tenure.outbox.effects import First as First
from tenure.outbox.effects import aonce as aonce
from tenure.outbox.effects import clean as clean
from tenure.outbox.effects import once as once
from tenure.outbox.outbox import Outbox as Outbox
from tenure.outbox.outbox import OutboxHandle as OutboxHandle
from tenure.outbox.outbox import OutboxStatus as OutboxStatus
from tenure.outbox.outbox import RefusedRow as RefusedRow
from tenure.outbox.relay import Relay as Relay

__all__ = ["First", "Outbox", "OutboxHandle", "OutboxStatus", "RefusedRow", "Relay", "aonce", "clean", "once"]
