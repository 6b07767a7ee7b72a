"""Where the compiled functions come from: a store of executables, JAX's cache, or XLA.

``executable``  serialized executables, one file a function, process and topology,
                made by a fault-free run; loading one skips tracing and compiling. A worker
                keeps the bytes in memory, since clearing the backends of a dead job takes its
                executables along.
``persistent``  JAX's persistent compilation cache: traced again, then read. Only process 0
                writes it, and the keys differ by rank, so the other ranks compile.
``off``         traced and compiled.

An executable that was itself read from JAX's persistent cache fails when it is serialized
again and loaded later ("Function … not found"), so the store is only ever filled from a
fresh compilation.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
from jax.experimental import serialize_executable

from recoverybench import sealed
from recoverybench.topology import Topology
from recoverybench.worker.program import Program, Shardings, Signature

FUNCTIONS = ("init", "step", "step-kept")


class Executables:
    """The functions of one process, ready to run or about to be made.

    Args:
        mode: ``executable`` | ``persistent`` | ``off``.
        directory: of the executable store; None where it is not used.
        index, topology: process index whose executables these are, and of which topology.
        trace: makes the `Program`; called only when something must be traced.
    """

    def __init__(
        self,
        mode: str,
        directory: Path | None,
        index: int,
        topology: Topology,
        trace: Callable[[], Program],
    ) -> None:
        self._mode = mode
        self._directory = directory if mode == "executable" else None
        self._place = f"{index}of{topology.slug}"
        self._trace = trace
        self._program: Program | None = None
        self._blobs: dict[str, bytes] = {}
        self._signature: Signature | None = None

    def preload(self, functions: Iterable[str] = FUNCTIONS) -> None:
        """Read the store's bytes into memory, so that a recovery finds them there.

        Args:
            functions: those that will be wanted.
        """
        if self._directory is None:
            return
        for name in (*functions, "signature"):
            blob = sealed.read(self._path(name))
            if blob is not None:
                self._blobs[name] = blob
        if "signature" in self._blobs:
            self._signature = pickle.loads(self._blobs.pop("signature"))

    @property
    def signature(self) -> Signature:
        """Leaves and batch of the program; traced abstractly when the store has none."""
        if self._signature is None:
            self._signature = self._traced().signature
        return self._signature

    def get(self, function: str, places: Shardings) -> tuple[Any, str]:
        """The compiled function for this mesh, and a name from `vocabulary.CACHE_STATES`."""
        blob = self._blobs.get(function)
        if blob is not None:
            # An executable runs on the devices of its mesh, which need not be all there are.
            devices = list(places.replicated.mesh.devices.flat)
            serialized, inputs, outputs = pickle.loads(blob)
            loaded = serialize_executable.deserialize_and_load(
                serialized, inputs, outputs, execution_devices=devices
            )
            return loaded, "executable"
        watch = _CacheWatch()
        with watch:
            compiled = self._traced().lower(function, places).compile()
        if self._directory is not None:
            self._keep(function, pickle.dumps(serialize_executable.serialize(compiled)))
            self._keep("signature", pickle.dumps(self.signature))
        return compiled, watch.status(self._mode)

    def _traced(self) -> Program:
        if self._program is None:
            self._program = self._trace()
        return self._program

    def _keep(self, name: str, blob: bytes) -> None:
        if name != "signature":
            self._blobs[name] = blob
        sealed.write(self._path(name), blob)

    def _path(self, name: str) -> Path:
        assert self._directory is not None
        return self._directory / f"{name}.{self._place}.bin"


class _CacheWatch:
    """Listens to JAX's own events while a function is compiled."""

    HIT = "/jax/compilation_cache/cache_hits"
    MISS = "/jax/compilation_cache/cache_misses"
    THRESHOLD = "jax_persistent_cache_min_compile_time_secs"
    COMPILE = "/jax/core/compile/backend_compile_duration"

    def __init__(self) -> None:
        self._events: set[str] = set()
        self._compile_s = 0.0

    def __enter__(self) -> None:
        jax.monitoring.register_event_listener(self._event)
        jax.monitoring.register_event_duration_secs_listener(self._duration)

    def __exit__(self, *_: object) -> None:
        _unregister("event_listener", self._event)
        _unregister("event_duration_listener", self._duration)

    def _event(self, event: str, **_: Any) -> None:
        self._events.add(event)

    def _duration(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == self.COMPILE:
            self._compile_s = max(self._compile_s, duration_secs)

    def status(self, mode: str) -> str:
        """What JAX said; its silence is not taken for a hit."""
        if mode == "off":
            return "off"
        if self.HIT in self._events:
            return "hit"
        if self.MISS in self._events:
            return "miss"
        threshold = getattr(jax.config, self.THRESHOLD)
        if mode == "persistent" and self._compile_s < threshold:
            return "below_threshold"
        return "compiled"


def _unregister(kind: str, listener: Callable[..., None]) -> None:
    public = getattr(jax.monitoring, f"unregister_{kind}", None)
    if public is None:  # before JAX 0.8.1
        from jax._src import monitoring

        public = getattr(monitoring, f"_unregister_{kind}_by_callback")
    public(listener)
