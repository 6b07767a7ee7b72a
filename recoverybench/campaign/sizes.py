"""Sizes of workloads, kept between runs: asking costs seconds, the kept answer none."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from recoverybench import sealed
from recoverybench.campaign import cache
from recoverybench.environments.environment import Environment
from recoverybench.errors import RecoverybenchError
from recoverybench.plan import catalogue
from recoverybench.plan.own_files import own_sources
from recoverybench.plan.sizes import Sizer, Sizes
from recoverybench.results import provenance
from recoverybench.workload_name import WorkloadName, own_file


def sizes_of(
    workloads: Iterable[str],
    data: str | None = None,
    *,
    told: Callable[[str], object] = lambda workload: None,
    environment: Environment | None = None,
) -> dict[str, Sizes | RecoverybenchError]:
    """Sizes of several workloads, or why one has none; kept in the cache where it has.

    A user's own, and one that another package adds, is tried at the same time for what a job
    would stumble over.

    Args:
        workloads: their names. data: the user's data file.
        told: hears the name of each that has to be asked for, before it is.
        environment: whose code is to make it; by default the supervisor's.
    """
    found: dict[str, Sizes | RecoverybenchError] = {}
    versions: Mapping[str, Any] = provenance.versions()
    python, variables = None, None
    if environment is not None and environment.name is not None:
        versions = environment.software()
        python, variables = environment.python, environment.variables
    with Sizer(python=python, variables=variables) as sizer:
        for workload in workloads:
            file = _file(workload, data, versions)
            kept = sealed.read(file)
            if kept is not None:
                found[workload] = Sizes.of(workload, json.loads(kept))
                continue
            told(workload)
            try:
                answer = sizer.answer(workload, data, attempt=is_foreign(workload))
            except RecoverybenchError as error:
                found[workload] = error
                continue
            sealed.write(file, json.dumps(answer).encode())
            found[workload] = Sizes.of(workload, answer)
    return found


def kept_sizes(workload: str, data: str | None = None) -> Sizes | None:
    """The answer that the cache holds; None: it has none."""
    kept = sealed.read(_file(workload, data, provenance.versions()))
    return None if kept is None else Sizes.of(workload, json.loads(kept))


def is_foreign(workload: str) -> bool:
    """Whether it is none that ships with recoverybench."""
    if own_file(workload):
        return True
    path = catalogue.find("workloads", WorkloadName.of(workload).family).path
    return path is None or path.parent != catalogue.workloads_dir()


def _file(workload: str, data: str | None, versions: Mapping[str, Any]) -> Path:
    content: dict[str, Any] = {
        "workload": workload,
        "sources": _sources(workload),
        "data": None if data is None else _identity(data),
        "versions": versions,
    }
    text = json.dumps(content, sort_keys=True).encode()
    return cache.root() / "sizes" / f"{hashlib.sha256(text).hexdigest()[:24]}.json"


def _sources(workload: str) -> str:
    """A digest of the workload's file and of all that workloads are made with."""
    name = WorkloadName.of(workload)
    worker = Path(__file__).parents[1] / "worker"
    files = sorted(worker.glob("*.py"))
    if name.own:
        files += own_sources(Path(name.family))
    elif (path := catalogue.find("workloads", name.family).path) is not None:
        files.append(path)
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


def _identity(data: str) -> list[Any]:
    """What a data file is known by here: reading it whole could take longer than asking."""
    status = os.stat(data)
    return [data, status.st_size, status.st_mtime_ns]
