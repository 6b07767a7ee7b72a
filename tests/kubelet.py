"""A cluster of one node that is this machine: pods are processes here, as their manifests say.

``python -m tests.kubelet DIRECTORY ARGUMENTS`` runs ``recoverybench ARGUMENTS`` on it, keeps its
own files in DIRECTORY, and ends with 99 where something was sent that no schema allows, or was left
behind.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import urllib3

from recoverybench.errors import HarnessError
from recoverybench.launchers import kubernetes
from recoverybench.launchers._kubernetes import manifests, pods, shell
from recoverybench.launchers._kubernetes.api import Connection
from tests.kubernetes_api import Cluster, serving

WRONG = 99
GRACE_S = 2.0


def expanded(text: str) -> str:
    """What Kubernetes makes of a container's command: ``$$`` is ``$``."""
    return text.replace("$$", "$")


class Kubelet:
    """Runs the containers of a cluster's pods here.

    Args:
        cluster: of the server. place: for files that a container has for itself.
    """

    def __init__(self, cluster: Cluster, place: Path) -> None:
        self.cluster, self.place = cluster, place
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        cluster.on_pod, cluster.on_stop = self.start, self.stop

    def pid_file(self, pod: str) -> Path:
        """Where the worker of a pod says its pid."""
        return self.place / f"{pod}.pid"

    def start(self, pod: dict[str, Any]) -> None:
        """Run a pod's container."""
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        said = self.place / f"{name}.said"
        files = {manifests.PID_FILE: str(self.pid_file(name)), "/dev/termination-log": str(said)}
        command = [expanded(p) for p in (*container["command"], *container.get("args", []))]
        command = [sys.executable if part == "python3" else part for part in command]
        for inside, outside in files.items():
            command = [part.replace(inside, outside) for part in command]
        environment = {"PATH": os.environ["PATH"], "TMPDIR": os.environ["TMPDIR"]}
        environment |= {e["name"]: self.value(pod, e) for e in container.get("env", [])}
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.running[name] = process
        threading.Thread(target=self.wait, args=(name, process, said), daemon=True).start()

    def value(self, pod: dict[str, Any], variable: dict[str, Any]) -> str:
        """A variable of a container."""
        if "value" in variable:
            return expanded(variable["value"])
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            secret = self.cluster.find("secrets", source["secretKeyRef"]["name"])
            return str(secret["stringData"][source["secretKeyRef"]["key"]])
        found = re.fullmatch(r"metadata\.annotations\['(.*)'\]", source["fieldRef"]["fieldPath"])
        assert found is not None
        return str(pod["metadata"]["annotations"][found[1]])

    def wait(self, name: str, process: subprocess.Popen[bytes], said: Path) -> None:
        """Report a container as running, and how it ended."""
        with suppress(StopIteration):  # a pod that was deleted meanwhile
            self.cluster.run(name)
        code = process.wait()
        message = {"message": said.read_text(encoding="utf-8")} if said.exists() else {}
        with suppress(StopIteration):
            self.cluster.end(name, code if code >= 0 else 128 - code, **message)

    def stop(self, name: str, grace_s: int | None) -> None:
        """SIGTERM, and SIGKILL after the grace period."""
        process = self.running[name]
        if process.poll() is not None:
            return
        if grace_s == 0:
            process.kill()
            return
        process.terminate()
        threading.Timer(GRACE_S if grace_s is None else grace_s, process.kill).start()

    def send(self, client: object, namespace: str, pod: str, number: int) -> None:
        """What the exec API does."""
        try:
            os.kill(int(self.pid_file(pod).read_text(encoding="utf-8")), number)
        except (OSError, ValueError) as error:
            raise HarnessError(str(error)) from None


def main(directory: Path, arguments: list[str]) -> int:
    """Run a command on such a cluster; returns its exit code, or `WRONG`."""
    from recoverybench import cli

    place = directory / "kubelet"
    place.mkdir()
    with serving() as (cluster, url):
        kubelet = Kubelet(cluster, place)
        claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "v"}}
        cluster.add(
            "/api/v1/namespaces/bench/persistentvolumeclaims",
            {**claim, "spec": {"accessModes": ["ReadWriteMany"]}},
        )
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        node = {"kind": "Node", "metadata": {"name": "node-1"}, "spec": {}, "status": status}
        cluster.add("/api/v1/nodes", node)
        pool = urllib3.PoolManager(maxsize=8)
        code = 0
        with (
            mock.patch.object(kubernetes, "connect", lambda _: (Connection(url, pool, dict), None)),
            mock.patch.object(shell, "send", kubelet.send),
            mock.patch.object(pods.Pods, "host", lambda self, slot: "127.0.0.1"),
        ):
            try:
                cli.main(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        wrong = [*cluster.invalid]
        wrong += [n for k in ("jobsets", "pods", "secrets") for n in cluster.names(k)]
        for process in kubelet.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        print("\n".join(wrong), file=sys.stderr)
        return WRONG if wrong else code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
