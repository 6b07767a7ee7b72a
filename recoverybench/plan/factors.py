"""What each factor of a matrix may hold, and how its values are read.

A value comes from TOML, typed, or from the command line, as text; one reader serves both.
Each returns the value as a `Cell` holds it, or raises a `UsageError` that names the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from recoverybench.errors import UsageError, bad_value, shorten, unknown_name
from recoverybench.plan import catalogue, checkpoints, environments
from recoverybench.plan.triggers import parse_trigger
from recoverybench.plan.units import parse_duration
from recoverybench.plan.workloads import check_workload
from recoverybench.topology import Topology

COORDINATORS: Final = ("worker0", "external")
"""Where the coordination service can live."""

AGREEMENTS: Final = ("off", "on")
"""Whether workers that can rejoin keep agreeing on who is left."""

REPLICA_CHECKS: Final = ("off", "save")
"""When workers compare their copies of the state."""

PAGE_CACHES: Final = ("warm", "cold")
"""Whether the checkpoints are in the machine's memory at the injection."""

COMPILE_CACHES: Final = ("executable", "persistent", "off")
"""Executables loaded whole; JAX's persistent cache; neither."""

SEED_CHOOSES: Final = "seed"
"""How ``victim`` says that the seed chooses the worker."""


class _Required:
    """The default of a factor that has none."""


REQUIRED: Final = _Required()


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor: its names, its reader and its default.

    Attributes:
        name: field of `Cell`.
        key: key in TOML; with ``-`` for ``_``, the option of the command line.
        read: value and place -> the value that a `Cell` holds.
        default: that value where nothing is said, or `REQUIRED`.
        called: the option's name where it is another than the key's.
    """

    name: str
    key: str
    read: Callable[[object, str], Any]
    default: Any = REQUIRED
    called: str | None = None

    @property
    def option(self) -> str:
        """The option of the command line: ``--state-source``."""
        return "--" + (self.called or self.key.replace("_", "-"))


def read_integer(value: object, where: str, minimum: int, maximum: int = 2**31 - 1) -> int:
    """A whole number from TOML or text; ``1e1`` is 10, and neither True nor 1.5 is one."""
    found: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, float) and value.is_integer():
        found = int(value)
    elif isinstance(value, str):
        found = _integer_of_text(value.strip())
    if found is None or not minimum <= found <= maximum:
        large = found is not None and found > maximum
        upper = f" and at most {maximum}" if large or maximum < 2**31 - 1 else ""
        raise bad_value(where, value, f"a whole number of at least {minimum}{upper}")
    return found


def _integer_of_text(text: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,400}", text):
        return int(text)
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?[eE]\+?[0-9]{1,2}", text):
        number = float(text)
        return int(number) if number.is_integer() else None
    return None


def check_keys(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> None:
    """Refuses a key that is not known, and names the nearest one that is.

    Raises:
        UsageError: naming `prefix` + the key.
    """
    for key, value in table.items():
        if key not in known:
            hint = str(unknown_name("", key, known)).split(": ", 1)[1]
            raise UsageError(f"{prefix}{key} = {shorten(value)}: unknown key: {hint}")


def parse_topology(value: object, where: str = "topology") -> Topology:
    """Reads ``WxD`` or ``WxD:axis=n,…``.

    Raises:
        UsageError: it is anything else.
    """
    try:
        return Topology.of(value if isinstance(value, str) else "")
    except ValueError as error:
        raise bad_value(where, value, str(error)) from None


SAME: Final = "same"
"""How ``restore_topology`` says that the job comes back as it was."""


def _read_restore_topology(value: object, where: str) -> str | None:
    return None if value == SAME else str(parse_topology(value, where))


_LONGEST_HEARTBEAT_S = 86_400


def _read_heartbeat(value: object, where: str) -> float:
    """JAX takes whole seconds."""
    allowed = 'a duration of whole seconds, at least "1s"'
    seconds = parse_duration(value, where, allowed)
    if not seconds.is_integer() or seconds > _LONGEST_HEARTBEAT_S:
        raise bad_value(where, value, f"{allowed} and at most a day")
    return seconds


def _read_watchdog(value: object, where: str) -> float | None:
    if value == "off":
        return None
    return parse_duration(value, where, 'a positive duration such as "5s", or "off"')


def _read_factor(value: object, where: str) -> float | None:
    if value == "off":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise bad_value(where, value, _STEPS)
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise bad_value(where, value, _STEPS) from None
    if not 1 < number < 1e6:
        raise bad_value(where, value, _STEPS)
    return number


_STEPS = 'a number of steps above 1, such as 20, or "off"'


def _read_victim(value: object, where: str) -> int | None:
    if value == SEED_CHOOSES:
        return None
    try:
        return read_integer(value, where, 0)
    except UsageError:
        raise bad_value(where, value, f'a worker, counted from 0, or "{SEED_CHOOSES}"') from None


def _one_of(names: tuple[str, ...]) -> Callable[[object, str], str]:
    def read(value: object, where: str) -> str:
        if value not in names:
            raise unknown_name(where, value, names)
        return str(value)

    return read


def _named(kind: str) -> Callable[[object, str], str]:
    return lambda value, where: catalogue.find(kind, value, where).name


_ALL = (
    Factor("workload", "workload", check_workload),
    Factor("topology", "topology", lambda v, w: str(parse_topology(v, w))),
    Factor("strategy", "strategy", lambda v, w: catalogue.check_part("strategies", v, w)),
    Factor("state_source", "state_source", _named("state-sources"), "storage"),
    Factor("fault", "fault", lambda v, w: catalogue.check_part("faults", v, w)),
    Factor("trigger", "trigger", lambda v, w: str(parse_trigger(v, w))),
    Factor("interval", "interval", lambda v, w: read_integer(v, w, 1)),
    Factor("victim", "victim", _read_victim, None),
    Factor("heartbeat_s", "heartbeat", _read_heartbeat, 10.0),
    Factor("watchdog_s", "watchdog", _read_watchdog, 5.0),
    Factor("coordinator", "coordinator", _one_of(COORDINATORS), "worker0"),
    Factor("compile_cache", "compile_cache", _one_of(COMPILE_CACHES), "executable"),
    Factor("watchdog_factor", "watchdog_factor", _read_factor, None),
    Factor("replica_check", "replica_check", _one_of(REPLICA_CHECKS), "off"),
    Factor("agreement", "agreement", _one_of(AGREEMENTS), "off"),
    Factor("restore_topology", "restore_topology", _read_restore_topology, None),
    Factor("checkpoint", "checkpoint", checkpoints.read, checkpoints.DEFAULT),
    Factor("page_cache", "page_cache", _one_of(PAGE_CACHES), "warm"),
    Factor("environment", "environment", environments.read, None, called="env"),
)

FACTORS: Final[dict[str, Factor]] = {factor.key: factor for factor in _ALL}
"""Every factor by its TOML key, in the order of `cells.FACTORS`."""
