"""A Ray cluster of several raylets on this machine, until stdin closes.

``python -m tests.ray_cluster NODES`` prints the cluster's address once it is there. A process of
its own, because Ray warns, sets variables and takes signals in the process that imports it. Where
its files go RAY_TMPDIR says.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(nodes: int) -> None:
    """A head, where the supervisor is at home, and that many nodes."""
    from ray.cluster_utils import Cluster

    Path(os.environ["RAY_TMPDIR"], "ray").mkdir(parents=True)  # it writes there, and expects it
    memory = 80_000_000  # nothing is kept in the object store
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "object_store_memory": memory, "include_dashboard": False},
    )
    try:
        for _ in range(nodes):
            cluster.add_node(wait=False, num_cpus=2, object_store_memory=memory)
        cluster.wait_for_nodes()
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(int(sys.argv[1]))
