"""Fingerprints of workloads: two runs whose fingerprints differ did not train the same model.

Unlike the keys of the cache they cover neither versions nor the program that measures: those
may differ between two runs that are compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from recoverybench.external.spec import PREFIX
from recoverybench.plan import catalogue
from recoverybench.plan.own_files import own_sources
from recoverybench.plan.suite import Suite
from recoverybench.workload_name import WorkloadName, is_command


def fingerprints(suite: Suite) -> dict[str, str]:
    """SHA-256 of what each workload of a suite is made of, in hex, by the workload's name.

    Of a family that is its file, of a user's own what lies beside it and is imported, too, of a
    command the file that says how to start it; with the user's data, where there is some.
    """
    data = [Path(suite.data)] if suite.data else []
    names = dict.fromkeys(cell.workload for cell in suite.cells)
    return {name: _digest([*_files(name), *data]) for name in names}


def _files(workload: str) -> list[Path]:
    if is_command(workload):
        if not workload.startswith(PREFIX):
            return [Path(workload)]
        return [catalogue.workloads_dir() / f"{workload}.toml"]
    name = WorkloadName.of(workload)
    if name.own:
        return own_sources(Path(name.family))
    path = catalogue.find("workloads", name.family).path
    return [] if path is None else [path]


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()
