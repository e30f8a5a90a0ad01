"""The flows of an app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenure.client.flows import Flow
from tenure.client.groups import OPEN_S, Follows, IfOneFails, OpenGroup, Rules
from tenure.client.parts import KEEP_S
from tenure.core import names
from tenure.core.errors import invalid
from tenure.core.features import Feature

if TYPE_CHECKING:
    from datetime import timedelta

    from tenure.client.client import Client


class WithFlows:
    """Makes and finds flows."""

    _client: Client

    def flow(self, id: str) -> Flow:
        """Return a flow by its id, "<queue>/<key>". Sends nothing.

            app.flow(request.args["id"]).view()

        Raises `InvalidArgument` for what cannot be an id.
        """
        queue, slash, key = str(id).partition("/")
        if not slash or not (key.isascii() and key.replace("-", "").replace(".", "").isalnum()):
            raise invalid("flow", 'an id as `Flow.id` has it, "<queue>/<key>"', names.shown(id))
        return Flow(self._client, names.queue_name(queue), key)

    def open_group(
        self,
        queue: str,
        *,
        on_success: Follows = None,
        on_end: Follows = None,
        if_one_fails: IfOneFails = "wait",
        results: bool = False,
        keep: float | timedelta = KEEP_S,
        open_for: float | timedelta = OPEN_S,
    ) -> OpenGroup:
        """Return a group that gets its members one by one, in a `with` block. It ends no earlier than the block.

            with app.open_group("images", on_success=publish.call("album")) as group:
                for path in walk():
                    group.add(resize.call(path))

        `queue`: where the record of the flow is; the members may be of any queue. The other arguments are as for
        `Group.enqueue`. An error in the block cancels the flow. If the program dies in it, the flow stays open until
        `tenure flow ID --seal` or `--cancel`, and is cancelled when `open_for` seconds have passed, a week by default.
        Raises `InvalidArgument` and `UnsupportedFeature`.
        """
        self._client.require(Feature.FLOWS)
        rules = Rules(on_success, on_end, if_one_fails, names.flag(results, "results"), keep, open_for)
        return OpenGroup(self._client, rules.flow(self._client, names.queue_name(queue)))
