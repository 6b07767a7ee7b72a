"""What a record says of the devices that it was measured on, and of their health, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from recoverybench.records import TrialRecord

THROTTLE: Final = "tpu_throttle_score"
LINKS: Final = "ici_link_health"

_WHEN: Final = {"before": "before the injection", "after": "after the recovery"}
_MEMORY: Final = (("hbm_capacity_usage", "hbm_capacity_total"), ("bytes_in_use", "bytes_limit"))


def device_words(devices: Mapping[str, Any]) -> str:
    """``16 × TPU v6 lite, slice 4x4, libtpu 0.0.52``; empty where nothing is known, or where the
    devices are no more than their platform.
    """
    kind, platform = devices.get("kind"), devices.get("platform")
    if kind is None or kind == platform:
        return ""
    words = [f"{_one(devices['total'])} × {_one(kind)}" if "total" in devices else _one(kind)]
    slices = devices.get("slices")
    if topology := devices.get("topology"):
        several = f"{slices} slices of " if isinstance(slices, int) and slices > 1 else "slice "
        words.append(several + _one(topology))
    for name in ("libtpu", "plugins", "driver"):
        if name in devices:
            words.append(
                f"libtpu {_one(devices[name])}" if name == "libtpu" else _one(devices[name])
            )
    return ", ".join(words)


def health_words(record: TrialRecord) -> Iterator[str]:
    """A line for each reading of the devices' health; nothing where nothing was read."""
    for when, said in record.health.items():
        if not isinstance(said, Mapping):
            continue
        if words := reading_words(said):
            yield f"devices {_WHEN.get(when, when)}: {'; '.join(words)}"


def reading_words(said: Mapping[str, Any]) -> list[str]:
    """One reading of the devices' health (`analysis.accelerators.summary`)."""
    metrics = _metrics(said)
    words = [*_troubles(metrics), *_use(metrics)]
    whys = said.get("unavailable")
    if isinstance(whys, Mapping):
        words += [f"worker {worker}: unavailable: {why}" for worker, why in whys.items()]
    return words


def method_words(records: Iterable[TrialRecord]) -> str | None:
    """One sentence on the health of the devices in all these trials; None: nothing was read."""
    read = [r for r in records if any(_metrics(s) for s in r.health.values())]
    judged = [r for r in read if {THROTTLE, LINKS} & set(_names(r))]
    if not read:
        return None
    head = (
        "The runtime's own metrics of the devices were read before the injection and after the "
        f"recovery, in {len(read)} {'trial' if len(read) == 1 else 'trials'}"
    )
    if not judged:
        return f"{head}; it says how much memory was in use, and nothing of health."
    wrong = [r.trial for r in judged if troubled(r)]
    if not wrong:
        return f"{head}: no chip was throttled, and no link was reported as bad."
    return f"{head}: in {len(wrong)} a chip was throttled or a link was bad ({_some(wrong)})."


def troubled(record: TrialRecord) -> bool:
    """Whether a chip was throttled or a link reported as bad, before or after."""
    return any(map(bad, _sides(record)))


def bad(said: Mapping[str, Any]) -> bool:
    """The same of one reading."""
    return any(_most(_metrics(said), name) > 0 for name in (THROTTLE, LINKS))


def _sides(record: TrialRecord) -> list[Mapping[str, Any]]:
    return [said for said in record.health.values() if isinstance(said, Mapping)]


def _names(record: TrialRecord) -> set[str]:
    return {name for said in _sides(record) for name in _metrics(said)}


def _metrics(said: object) -> Mapping[str, Any]:
    found = said.get("metrics") if isinstance(said, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _most(metrics: Mapping[str, Any], name: str) -> float:
    metric = metrics.get(name)
    most = metric.get("most") if isinstance(metric, Mapping) else None
    return float(most) if isinstance(most, int | float) else 0.0


def _where(metrics: Mapping[str, Any], name: str) -> str:
    metric = metrics.get(name)
    return str(metric.get("where", "somewhere")) if isinstance(metric, Mapping) else "somewhere"


def _troubles(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Scales: see `recoverybench.worker.metrics`, whose source is libtpu itself."""
    if THROTTLE in metrics:
        score = _most(metrics, THROTTLE)
        by = f"throttled by up to {10 * score:.0f} % ({_where(metrics, THROTTLE)})"
        yield by if score > 0 else "none throttled"
    if LINKS in metrics:
        score = _most(metrics, LINKS)
        how = "has a transient problem" if score <= 5 else "has a persistent minor problem"
        how = "is not usable" if score >= 10 else how
        yield f"a link {how} ({_where(metrics, LINKS)})" if score > 0 else "links healthy"


def _use(metrics: Mapping[str, Any]) -> Iterator[str]:
    for used, total in _MEMORY:
        if _most(metrics, total) > 0 and used in metrics:
            share = _most(metrics, used) / _most(metrics, total)
            yield f"up to {100 * share:.0f} % of their memory in use"
            return


def _one(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, list) else str(value)


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
