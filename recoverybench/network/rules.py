"""What is dropped, as text for ``nft``. Pure: whoever applies it chooses the namespace."""

from __future__ import annotations

from collections.abc import Sequence

TABLE = "recoverybench"
DEVICE = "eth0"
"""Name of the one link that a machine has to the others."""


def partition() -> str:
    """Nothing goes out and nothing comes in."""
    return _table(incoming=["drop"], outgoing=["drop"])


def one_way() -> str:
    """Nothing goes out; what comes in arrives."""
    return _table(outgoing=["drop"])


def coordinator_cut(coordinator: str) -> str:
    """No packet to that ``host:port``, and none from it."""
    host, port = coordinator.rsplit(":", 1)
    return _table(
        incoming=[f"ip saddr {host} tcp sport {port} drop"],
        outgoing=[f"ip daddr {host} tcp dport {port} drop"],
    )


def coordinator_reset(coordinator: str) -> str:
    """Connections to that ``host:port`` are reset: the old ones and any new one."""
    host, port = coordinator.rsplit(":", 1)
    return _table(outgoing=[f"ip daddr {host} tcp dport {port} reject with tcp reset"])


def none() -> str:
    """Every packet passes again."""
    return f"delete table inet {TABLE}\n"


def _table(*, incoming: Sequence[str] = (), outgoing: Sequence[str] = ()) -> str:
    """A table in which each rule holds for the link alone: a machine always reaches itself."""
    lines = [f"table inet {TABLE} {{"]
    for hook, which, rules in (("input", "iifname", incoming), ("output", "oifname", outgoing)):
        lines += [f"  chain {hook} {{", f"    type filter hook {hook} priority 0; policy accept;"]
        lines += [f'    {which} "{DEVICE}" {rule}' for rule in rules]
        lines += ["  }"]
    return "\n".join([*lines, "}", ""])
