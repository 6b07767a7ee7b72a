"""Short texts that the workers of one generation leave for one another.

They lie in the key-value store of the coordination service, which is new in every generation,
so no text of an earlier one can be read by mistake. Waiting there ends when the generation does.
"""

from __future__ import annotations

import socket
from typing import Any

from recoverybench.worker.states.base import Part

_ROOT = "recoverybench/state"


class Exchange:
    """One worker's access.

    Args:
        client: `jax._src.distributed.global_state.client`.
        index, world: this process among those of the generation.
        timeout_s: how long to wait for another worker's text.
    """

    def __init__(self, client: Any, index: int, world: int, timeout_s: float) -> None:
        self._client = client
        self._timeout_ms = round(timeout_s * 1000)
        self.index = index
        self.world = world

    @classmethod
    def of(cls, part: Part, client: Any) -> Exchange:
        """The exchange of a generation, from what a state source has of it."""
        place = part.place
        return cls(client, place.index, place.world, part.spec.init_timeout_s)

    def put(self, key: str, text: str) -> None:
        """Leave a text under that key; once a generation."""
        self._client.key_value_set(f"{_ROOT}/{key}/{self.index}", text)

    def get(self, key: str, index: int) -> str:
        """What worker `index` left there, once it has. Raises when it does not in time."""
        return str(self._client.blocking_key_value_get(f"{_ROOT}/{key}/{index}", self._timeout_ms))

    def gather(self, key: str, mine: str) -> list[str]:
        """Leave a text and read everybody's, by index."""
        self.put(key, mine)
        return [self.get(key, index) for index in range(self.world)]


def own_host(coordinator: str) -> str:
    """The address of this machine that the others can reach: the one it reaches them from.

    Args:
        coordinator: ``host:port`` of the coordination service, which all workers reach.
    """
    host, _, port = coordinator.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((host.strip("[]"), int(port)))  # sends nothing: it only asks for the route
        return str(probe.getsockname()[0])
