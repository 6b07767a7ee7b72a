"""The life cycle of `jax.distributed` and of the backends: join, and leave for good.

Joining again in the same process is what elastic recovery rests on, and it works only in
one order: out of the except block (a traceback keeps the old backend, and with it the
gloo sockets on which the other survivors wait), references dropped, the distributed
runtime closed (which also ends Orbax's wait for its barrier), Orbax's threads drained
(one of them touching JAX between the clearing and the new start makes `initialize`
refuse), caches and backends cleared, garbage collected, and then a *new* coordinator
address, because a coordination service refuses a second incarnation of a worker.
"""

from __future__ import annotations

import ctypes
import gc
import select
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.extend.backend
import numpy as np
from jax._src import xla_bridge
from jax._src.distributed import global_state
from jax._src.lib import _jax  # type: ignore[attr-defined]
from jax.sharding import Mesh

from recoverybench.journal_writer import Journal
from recoverybench.protocol import Place
from recoverybench.topology import Topology
from recoverybench.worker import links

_disconnecting = threading.Lock()

_COLLECTIONS = 3
"""One is enough, except where a save died as well: what its errors hold on to is freed by the
first collection only so far that the second finds the rest."""


def configure(
    devices: int, platform: str, cache_dir: str | None, *, rejoin: bool, preemption: bool
) -> None:
    """Settings that must stand before the first backend opens.

    Args:
        devices: devices of this process (the host platform is split into that many).
        platform: JAX platform name.
        cache_dir: JAX's persistent compilation cache; None: off.
        rejoin: this process may join again. The price is that a missing heartbeat of another
            worker then ends nobody: that is how JAX treats workers that can be recovered.
        preemption: JAX listens for SIGTERM; else that signal ends the process.
    """
    jax.config.update("jax_platforms", platform)
    jax.config.update("jax_check_proxy_envs", False)  # the launcher has seen to loopback
    _set("jax_enable_recoverability", rejoin, before=False)  # since JAX 0.7.1
    _set("jax_enable_preemption_service", preemption, before=True)  # since JAX 0.8.2
    if platform == "cpu":
        jax.config.update("jax_num_cpu_devices", devices)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_compilation_cache", cache_dir is not None)
    if cache_dir is not None:
        jax.config.update("jax_compilation_cache_dir", cache_dir)


def _set(name: str, value: bool, *, before: bool) -> None:
    """Set what an older JAX has no setting for: it does as others do with `before`."""
    if hasattr(jax.config, name) or value != before:
        jax.config.update(name, value)


def use_devices(devices: int, platform: str) -> None:
    """Have this process open that many devices; before its backend is opened.

    A worker that is started for another topology than the job began with learns of it late.
    """
    if platform == "cpu":
        jax.config.update("jax_num_cpu_devices", devices)


def await_listener(address: str, deadline_s: float) -> None:
    """Return once something listens at ``host:port``.

    A client of the coordination service that comes too early sleeps about a second before
    it tries again, which was two thirds of a hot-spare recovery; a TCP connection in a
    tight loop with a growing pause finds the listener within milliseconds.

    Raises:
        TimeoutError: nothing listens after `deadline_s`.
    """
    host, port = address.rsplit(":", 1)
    end = time.monotonic() + deadline_s
    pause = 0.001
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError(
                    f"no coordinator at {address} after {deadline_s:.0f} s"
                ) from None
            select.select([], [], [], pause)
            pause = min(pause * 1.5, 0.02)


def join(
    place: Place, heartbeat_s: float, deadline_s: float, journal: Journal, *, serve: bool
) -> Mesh:
    """Enter the job and return the mesh over all its devices.

    Args:
        place: process index, number of processes, coordinator and topology.
        heartbeat_s: heartbeat timeout of the coordination service (it takes whole seconds).
        deadline_s: how long to wait for the others.
        journal: receives the spans.
        serve: process 0 runs the coordination service; else somebody else does.
    """
    if place.index != 0 or not serve:
        with journal.span("wait for the coordinator"):
            await_listener(place.coordinator, deadline_s)
    with journal.span("jax.distributed.initialize"), _service(serve):
        jax.distributed.initialize(
            place.coordinator,
            place.world,
            place.index,
            initialization_timeout=max(1, round(deadline_s)),
            heartbeat_timeout_seconds=max(1, round(heartbeat_s)),
            # Bound to the address that was asked for, not to every interface of the host.
            coordinator_bind_address=place.coordinator,
            cluster_detection_method="deactivate",
        )
    with journal.span("open the backend"):
        _bind_collectives(links.own_address(place.coordinator))
        return mesh_of(Topology.of(place.topology), jax.devices())


def mesh_of(topology: Topology, devices: Sequence[Any]) -> Mesh:
    """The mesh that a topology makes of these devices, in the order of the processes.

    Raises:
        ValueError: their number is another.
    """
    names, sizes = zip(*topology.mesh, strict=True)
    return Mesh(np.array(devices).reshape(sizes), names)


def _bind_collectives(address: str | None) -> None:
    """Have Gloo listen at this address; None: at that of the host's name, as it does by itself.

    A name says nothing in a network of one's own, or leads to another network.
    """
    if address is None:
        return

    def client() -> Any:
        return xla_bridge.make_cpu_client(
            _jax.make_gloo_tcp_collectives(global_state.client, hostname=address)
        )

    xla_bridge.register_backend_factory("cpu", client, priority=0, fail_quietly=False)


@contextmanager
def _service(wanted: bool) -> Iterator[None]:
    """Keep `jax.distributed.initialize` from starting a coordination service in process 0."""
    if wanted:
        yield
        return
    start = _jax.get_distributed_runtime_service
    _jax.get_distributed_runtime_service = lambda *_, **__: None
    try:
        yield
    finally:
        _jax.get_distributed_runtime_service = start


def serve(address: str, world: int, heartbeat_s: float, *, recoverable: bool) -> Any:
    """Run a coordination service in this process; it lives as long as what is returned.

    Args:
        address: ``host:port`` to bind. world: processes of the job.
        heartbeat_s: whole seconds. recoverable: its workers may join another one later.
    """
    make = _jax.get_distributed_runtime_service
    # Since jaxlib 0.9; before, each client said so alone. Compiled code has no other signature.
    more = {"recoverable": recoverable} if "recoverable:" in (make.__doc__ or "") else {}
    return make(
        address,
        world,
        heartbeat_timeout=max(1, round(heartbeat_s)),
        shutdown_timeout=1,
        **more,
    )


def leave(journal: Journal) -> Any:
    """Leave the coordination service, which ends whatever waits there for other workers.

    Returns:
        The service itself where this process hosts it, else None. It must stay up until the
        other survivors have left it (their clients abort the process when it is gone): hand
        it to `retire` once the next generation runs.
    """
    with journal.span("leave the coordination service"):
        service, global_state.service = global_state.service, None
        disconnect()
    return service


def disconnect() -> None:
    """Shut the client of the coordination service down, which ends every wait on it.

    From any thread: a main thread that waits for a dead worker at a barrier of Orbax's gets
    its exception that way. Doing it again changes nothing.
    """
    with _disconnecting:
        # Out of sight before it is shut down: a barrier that an Orbax thread begins on a
        # client that is just shutting down is never answered.
        client, global_state.client = global_state.client, None
        preemption = global_state.preemption_sync_manager
        global_state.preemption_sync_manager = None
        # JAX shuts the preemption notifier down first. After a notice it may be waiting for
        # every worker, the dead one too, and then its shutdown never returns; the client's
        # ends that wait. The notifier points into the client, so it is the first to be freed.
        if client is not None:
            client.shutdown()
        if preemption is not None:
            preemption.shutdown()
        del preemption


def healthy() -> bool:
    """Whether this worker reaches what it cannot do without. From any thread."""
    coordinator = global_state.coordinator_address
    return coordinator is None or links.reaches(coordinator)


def let_go() -> None:
    """Free a main thread that waits for a worker which will never come: at a barrier, or in a
    collective whose packets are lost. From any thread.
    """
    coordinator = global_state.coordinator_address
    disconnect()
    if coordinator is not None:
        links.cut(coordinator)


def retire(service: Any) -> None:
    """Shut an old coordination service down, off the training thread."""
    threading.Thread(target=service.shutdown, name="rb-retire", daemon=True).start()


def trim() -> None:
    """Give memory that the old backend has freed back to the system, off the training thread.

    The C library keeps it, in an arena for each of many threads, and every generation's
    threads are new: a survivor of 24 recoveries held 100 MB, of which 40 were in use.
    """
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        threading.Thread(target=give_back, args=(0,), name="rb-trim", daemon=True).start()


def forget(journal: Journal) -> bool:
    """Clear everything that belonged to the old backend. Hold no array when calling this.

    Returns:
        Whether the backend is gone. While it lives it holds its sockets open, and the other
        survivors stay inside the collective that failed.
    """
    backend = (
        weakref.ref(jax.devices()[0].client) if xla_bridge.backends_are_initialized() else None
    )
    with journal.span("clear caches and backends"):
        jax.clear_caches()
        jax.extend.backend.clear_backends()
    for _ in range(_COLLECTIONS):
        with journal.span("gc.collect"):
            gc.collect()
        if backend is None or backend() is None:
            return True
    return False
