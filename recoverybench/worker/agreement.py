"""The survivors' agreement on who is left, through the coordination service.

`jax.experimental.multihost_utils.live_devices` rests on this call: every live process makes it,
and it returns once each has, or has been silent for the heartbeat timeout. So one stopped worker
is found about a heartbeat later, where nothing else in JAX notices it: workers that may rejoin
are not ended by the silence of another one. A thread asks all the time, as the training thread
is inside the collective that hangs.
"""

from __future__ import annotations

import threading
from typing import Any

from jax._src.distributed import global_state

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Place
from recoverybench.worker.channel import Channel

PAUSE_S = 0.25
"""Between two questions; a small part of the shortest heartbeat timeout, which is 1 s."""


class Agreement:
    """Asks from the rendezvous of a generation until it is over.

    Args:
        place: of this worker. channel: to the supervisor. journal: this attempt's.
    """

    def __init__(self, place: Place, channel: Channel, journal: Journal) -> None:
        self._over = threading.Event()
        self._asking = threading.Thread(
            target=self._ask,
            args=(global_state.client, place, channel, journal),
            name="rb-agreement",
            daemon=True,
        )
        self._asking.start()

    def end(self) -> None:
        """Ask no more; a question that is on its way ends with the client."""
        self._over.set()

    def _ask(self, client: Any, place: Place, channel: Channel, journal: Journal) -> None:
        everybody = set(range(place.world))
        while not self._over.wait(PAUSE_S):
            try:
                live = set(client.get_live_nodes(sorted(everybody)))
            except Exception:  # the client is gone, and with it the generation
                return
            gone = sorted(everybody - live)
            if gone and not self._over.is_set():
                detail = f"the live processes agree that {', '.join(map(str, gone))} is gone"
                journal.log("error", mechanism="agreement", type="Agreement", message=detail)
                channel.send("agreed", generation=place.generation, detail=detail)
                return
