"""As restart; new workers come from a fork server that has the imports done and no backend open."""

from __future__ import annotations

from typing import ClassVar

from recoverybench.errors import bad_value
from recoverybench.launchers.base import How
from recoverybench.strategies.restart import Restart

NEEDS = ("fork-server",)


class WarmRestart(Restart):
    """See `strategies.base.Strategy`."""

    name: ClassVar[str] = "warm-restart"
    how: ClassVar[How] = "warm"


def create(argument: str | None) -> WarmRestart:
    """``warm-restart`` takes no argument."""
    if argument is not None:
        raise bad_value("strategy", f"warm-restart:{argument}", "no argument")
    return WarmRestart()
