"""Orbax, as a training job uses it: asynchronous saves, and a restore onto a mesh.

One checkpoint holds the items ``state`` (the leaves, by name) and ``data`` (the position
of the input pipeline, as JSON).
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp
from jax._src.distributed import global_state
from orbax.checkpoint._src.futures.synchronization import OperationIdGenerator

from recoverybench.protocol import CheckpointOptions
from recoverybench.worker import arrays
from recoverybench.worker.program import Shardings, Signature

State = dict[str, jax.Array]


class Checkpoints:
    """The checkpoints of one generation of the job, in one directory.

    Args:
        directory: persistent storage that all workers see.
        timeout_s: how long a save may wait for the other workers.
        committed: called with a step once it is durable, from Orbax's thread (worker 0 only).
        options: the fields of `CheckpointOptions`; None: as Orbax does it by itself.
    """

    def __init__(
        self,
        directory: Path,
        timeout_s: float,
        committed: Callable[[int], object],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._saving = 0
        self._how = None if options is None else CheckpointOptions(**options)
        everybody = ocp.options.MultiprocessingOptions(
            active_processes=set(range(jax.process_count()))
        )
        items: dict[str, Any] = {"item_names": ("state", "data")}
        if self._how is not None:
            handler = arrays.handler_of(self._how, everybody)
            data = ocp.JsonCheckpointHandler(multiprocessing_options=everybody)
            items = {"item_handlers": {"state": handler, "data": data}}
        self._manager = ocp.CheckpointManager(
            directory,
            **items,
            options=self._options(everybody, timeout_s, committed),
        )

    def _options(
        self,
        processes: ocp.options.MultiprocessingOptions,
        timeout_s: float,
        committed: Callable[[int], object],
        newest: int | None = None,
    ) -> ocp.CheckpointManagerOptions:
        """Options of Orbax's manager.

        Args:
            processes: those that save together. Orbax's default is to synchronise all of them
                by a device collective, which has to be compiled first: 0.2 s in the middle of a
                recovery. With the processes named it uses the coordination service; the
                directory must then be there already.
            newest: how many checkpoints are left there; None: all.
        """
        assert processes.active_processes is not None
        return ocp.CheckpointManagerOptions(
            multiprocessing_options=processes,
            create=False,
            max_to_keep=newest,
            save_root_metadata=False,
            async_options=ocp.AsyncOptions(
                timeout_secs=int(timeout_s),
                barrier_sync_fn=barrier_of_this_generation(processes.active_processes),
                post_finalization_callback=lambda: _about_to_commit(committed, self._saving),
                # One that saves alone has nobody to tell that a directory is there.
                create_directories_asynchronously=processes.barrier_sync_key_prefix is None,
            ),
        )

    def steps(self) -> list[int]:
        """Steps on the disk, newest first. Only right while no save is in flight."""
        return sorted(self._manager.all_steps(read=True), reverse=True)

    def save(self, step: int, state: Mapping[str, jax.Array], data: Mapping[str, Any]) -> bool:
        """Begin an asynchronous save; waits for the previous one to end first.

        Returns:
            Whether it was begun: Orbax skips, and says nothing of it, a step that is not newer
            than all that are there, whatever lies under their names.
        """
        self._manager.wait_until_finished()
        self._saving = step
        item: Any = (
            ocp.args.StandardSave(dict(state))
            if self._how is None
            else arrays.saving(self._how, state)
        )
        begun: bool = self._manager.save(
            step, args=ocp.args.Composite(state=item, data=ocp.args.JsonSave(dict(data)))
        )
        return begun

    def restore(
        self, step: int, signature: Signature, places: Shardings
    ) -> tuple[State, dict[str, Any]]:
        """Read a step: (leaves by name, where the mesh wants them; the data item)."""
        target = {
            leaf.name: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=places.of_leaf(leaf))
            for leaf in signature.leaves
        }
        wanted: Any = ocp.args.StandardRestore(target)
        if self._how is not None:
            how = ocp.checkpoint_utils.construct_restore_args(target)
            wanted = ocp.args.PyTreeRestore(target, restore_args=how)
        item = self._manager.restore(
            step, args=ocp.args.Composite(state=wanted, data=ocp.args.JsonRestore())
        )
        return item["state"], item["data"]

    def finish(self) -> None:
        """Wait until what was saved is durable. Raises what the save raised."""
        self._manager.wait_until_finished()

    def abandon(self, deadline_s: float) -> list[str]:
        """Give up whatever is in flight, and let go of the dead job's coordination client.

        Call it after the distributed runtime was shut down: only then do Orbax's threads
        stop waiting for workers that are gone. Returns the first lines of errors that they
        raised on their way out, which the failure explains.
        """
        errors: list[str] = []
        # In a thread, because it joins Orbax's threads without a bound of its own.
        closing = threading.Thread(target=self._close, args=(errors,), name="rb-close", daemon=True)
        closing.start()
        end = time.monotonic() + deadline_s
        for thread in (closing, *_save_threads()):
            # Not the thread's own `join`: Orbax's raises there what its thread died of.
            threading.Thread.join(thread, max(0.0, end - time.monotonic()))
            if thread.is_alive():
                errors.append(f"thread {thread.name} is still alive after {deadline_s:.0f} s")
        reset_orbax()
        return errors

    def _close(self, errors: list[str]) -> None:
        try:
            self._manager.close()
        except Exception as error:  # whatever a dying save raises is a consequence
            errors.append(in_short(error))


def in_short(error: BaseException) -> str:
    """Type and first line of an error, or of its cause where Orbax only says where to look."""
    cause = error.__cause__
    if "details: <bound method" in str(error) and cause is not None:
        error = cause
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"


_FINALIZED = "/jax/orbax/write/background_finalize_secs"
"""Orbax's event after the rename that makes a checkpoint durable, from the thread that did it."""

_commit = threading.local()


def _about_to_commit(committed: Callable[[int], object], step: int) -> None:
    """Remember whom to tell: Orbax's ``post_finalization_callback`` comes before the rename."""
    _commit.tell = lambda: committed(step)


def _finalized(event: str, duration_secs: float, **_: Any) -> None:
    if event == _FINALIZED:
        tell, _commit.tell = getattr(_commit, "tell", None), None
        if tell is not None:
            tell()


jax.monitoring.register_event_duration_secs_listener(_finalized)


def barrier_of_this_generation(processes: Collection[int]) -> Callable[..., None]:
    """A barrier over these processes for Orbax's threads, which ends with this generation.

    Orbax's own holds on to the client that it saw first. A thread whose writes end after the
    client was shut down would wait there for ever, and write into the next generation's
    directory meanwhile.
    """
    mine = global_state.client
    workers = sorted(processes)

    def barrier(*, key: str, timeout_ms: int) -> None:
        if len(workers) == 1:  # nobody to wait for, and perhaps no service to ask
            return
        if global_state.client is not mine or mine is None:
            raise RuntimeError(f"no barrier {key}: the generation that wanted it is over")
        mine.wait_at_barrier(key, timeout_ms, process_ids=workers)

    return barrier


def reset_orbax() -> None:
    """Bring what Orbax keeps for the life of a process back to where it was at its start.

    The caches of its functions: one keeps the first coordination client it saw, and would
    speak to the dead one after a rejoin. Others are keyed by shardings, which keep the
    devices, the backend and its open sockets: with `_sharding_num_replicas` uncleared, one
    survivor's old backend blocked the others for as long as it lived.

    The number of its operations: workers find each other's signals by it. A survivor counts
    on where a replacement begins anew, finds nothing to wait for, and writes into a directory
    that worker 0 is just clearing away.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("orbax."):
            for value in list(vars(module).values()):
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    OperationIdGenerator._operation_id_counter = itertools.count()
    OperationIdGenerator.next_operation_id()


def _save_threads() -> list[threading.Thread]:
    """Threads in which Orbax writes, signals and finalizes."""
    mine = ("save_finalize", "async_save", "_SignalingThread")
    return [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith(mine) or type(thread).__module__.startswith("orbax.")
    ]
