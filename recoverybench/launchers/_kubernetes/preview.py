"""What ``run --dry-run`` writes: every manifest of a run, as YAML, without asking a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from recoverybench import __version__
from recoverybench.launchers._kubernetes import manifests, preflight
from recoverybench.launchers._kubernetes.api import module
from recoverybench.launchers._kubernetes.manifests import JobPlan, Manifest
from recoverybench.launchers._kubernetes.settings import Settings

SECRET: Final = "RECOVERYBENCH_SECRET"

_HEAD: Final = """\
# recoverybench {version}: what a run with these settings sends to the cluster.
#
# Names, the control channel's port, the secret and the paths of a trial are made when it runs; here
# they are examples. First the probe of the image and the volume, then for each size of job the
# Secret, the JobSet of the healthy job, and the pod that replaces a lost worker (which the JobSet
# owns and, on TPU, the node pool of its slice holds: only the cluster can say these).
"""


def documents(
    settings: Settings, workers: Iterable[int], variables: Mapping[str, str]
) -> list[Manifest]:
    """The manifests of a run.

    Args:
        workers: of its jobs; each number once.
        variables: what every worker gets.

    Raises:
        UsageError: workers do not fill whole slices.
    """
    labels = {
        manifests.MANAGED_BY: manifests.MANAGER,
        manifests.LAUNCHER: "example",
        manifests.RUN: "example",
    }
    token = f"{settings.mount}/.recoverybench-example"
    metadata = {"name": "rb-example-probe", "labels": labels}
    probe = manifests.probe(metadata, settings, preflight.CODE, [token])
    made = [probe]
    for number, size in enumerate(sorted(set(workers))):
        name = f"rb-example-{number}"
        plan = JobPlan(
            name,
            size,
            f"tcp://{settings.supervisor_address or 'SUPERVISOR'}:20000/JOB",
            f"{settings.mount}/results/example/logs/0000",
            {**variables, SECRET: ""},
            (SECRET,),
            {**labels, manifests.TRIAL: "0000", manifests.JOB: name},
            "what is measured",
        )
        made.append(manifests.secret(plan, settings, {SECRET: "made for each run"}))
        made.append(manifests.jobset(plan, settings))
        lost = min(1, size - 1)
        made.append(manifests.pod(plan, settings, lost, 1, owner=None))
    return made


def text(settings: Settings, workers: Iterable[int], variables: Mapping[str, str]) -> str:
    """`documents` as YAML.

    Raises:
        UsageError: see `documents`; or pyyaml is missing.
    """
    yaml = module("yaml")

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        """Programs stand in lines, as they were written."""

    def of_text(dumper: Any, value: str) -> Any:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, of_text)
    made = documents(settings, workers, variables)
    body = yaml.dump_all(made, Dumper=Dumper, sort_keys=False, explicit_start=True, width=100)
    return _HEAD.format(version=__version__) + str(body)
