"""Whether this machine lets us make networks and drop packets: tried, and gone with the try."""

from __future__ import annotations

import shutil

from recoverybench.errors import HarnessError
from recoverybench.network import rules
from recoverybench.network.namespace import Namespace

_LINKS = "link add switch type bridge\nlink add one type veth peer name other\n"


def namespaces() -> str | None:
    """Why no worker can have a network of its own; None: it can."""
    return _try("ip", ["ip", "-batch", "-"], _LINKS)


def nftables() -> str | None:
    """Why packets cannot be dropped; None: they can."""
    return _try("nft", ["nft", "-f", "-"], rules.partition())


def _try(tool: str, command: list[str], text: str) -> str | None:
    if shutil.which(tool) is None:
        return f"no {tool} command"
    try:
        namespace = Namespace()
    except OSError as error:
        return str(error.strerror)
    try:
        namespace.run(command, text)
    except HarnessError as error:
        return str(error)
    finally:
        namespace.close()
    return None
