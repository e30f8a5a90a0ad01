"""The interface of hworker, a queue for Haskell, for Python: on the same pools, with the same names.

from tenure.compat.hworker import Failure, Hworker, Retry, Success

pool = Hworker("printer", on_exception="retry")
pool.queue({"page": 1})


@pool.job
def work(page):
    return Success() if page["page"] > 0 else Failure("no such page")


pool.worker()
"""

from tenure.compat.hworker.pool import Hworker
from tenure.compat.hworker.results import Failure, Retry, Success

__all__ = ["Failure", "Hworker", "Retry", "Success"]
