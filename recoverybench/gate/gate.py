"""The storage gate: every file operation of the workers below some directories, one by one.

TensorStore writes natively, so no hook in Python sees what a save does to the disk. The gate
sees it in the kernel: each worker installs a seccomp filter (`worker.gate`) and hands its
descriptor over a Unix socket, and a thread of the supervisor answers for every call that the
filter traps. Calls outside the watched directories go on at once. The others become
operations (`policies.Operation`), and policies say what becomes of them: executed, failed,
delayed, torn in the middle, or held, so that a fault can strike while an operation is halfway.

Files that a worker opens below the watched directories are opened here, with the same flags,
and placed in the worker under a high number (`seccomp.FIRST_FD`); only descriptors from there
on are trapped, so that a worker's sockets and pipes cost nothing.
"""

from __future__ import annotations

import heapq
import itertools
import os
import queue
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from recoverybench.errors import HarnessError
from recoverybench.gate import seccomp
from recoverybench.gate.filecalls import Call, FileCalls
from recoverybench.gate.policies import (
    CONTINUE,
    READS,
    Decision,
    Delay,
    Fail,
    Hold,
    HoldAfter,
    Moment,
    Nth,
    Operation,
    Policy,
    Tear,
    save_of,
)
from recoverybench.gate.seccomp import Listener, Notification
from recoverybench.gate.waiting import Waiting, Worker, finish

_LONGEST_WAIT_S = 60.0
_LOOK_S = 1.0

_PEER = struct.Struct("=3i")


@dataclass(slots=True, eq=False)
class Arm:
    """A stop that `Gate.arm` has set.

    Attributes:
        policy: counts; its `seen` says how far it got. operation: the one that was stopped,
            None until then.
    """

    policy: Nth
    operation: Operation | None = None
    _reached: Callable[[], None] = field(default=lambda: None)
    _lift: Callable[[Policy], None] = field(default=lambda _: None)

    def release(self) -> None:
        """Let the operation go on where it was stopped; without one, stop none any more.

        One that was torn is written whole, one that was executed keeps its result.
        """
        self._lift(self.policy)


class Gate:
    """Answers for the file operations of a job's workers, in a thread of its own.

    Args:
        address: of the Unix socket where workers hand over their filter; its directory must
            be private.
        watched: directories; all else goes on untouched.
        rank_of: the rank that a process has at this moment; None: none. It is called from
            the gate's thread.

    Attributes:
        address: of the socket.
        wakes: a descriptor that becomes readable when an armed operation was reached; the
            supervisor's loop then calls `deliver`.
    """

    def __init__(
        self,
        address: Path,
        watched: Iterable[Path],
        rank_of: Callable[[int], int | None],
    ) -> None:
        self.address = str(address)
        self._reads = False
        self.wakes = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._rank_of = rank_of
        self._calls = FileCalls(tuple(str(path) for path in watched))
        self._policies: tuple[Policy, ...] = ()
        self._arms: dict[Policy, Arm] = {}
        self._reached: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._counts: Counter[int] = Counter()
        self._held: list[Waiting] = []
        self._delayed: list[tuple[float, int, Waiting]] = []
        self._numbers = itertools.count()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._workers: list[Worker] = []
        self._problem: str | None = None
        self._open = True
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._command = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self.address)
        os.chmod(self.address, 0o600)
        self._socket.listen(64)
        self._watch(self._command, self._obey)
        self._watch(self._socket.fileno(), self._accept)
        self._thread = threading.Thread(target=self._run, name="rb-gate", daemon=True)
        self._thread.start()

    # For faults and triggers

    def watch_reads(self) -> None:
        """Have reads and files opened for reading pass the gate, too. Before any worker starts."""
        self._reads = True

    def impose(self, policy: Policy) -> None:
        """Ask this policy from now on, after those that were imposed before."""
        self._do(lambda: self._set((*self._policies, policy)))

    def lift(self, policy: Policy) -> None:
        """Ask it no more, and let go on what it held."""
        self._do(lambda: self._release(policy))

    def arm(
        self,
        worker: int,
        k: int,
        moment: Moment,
        reached: Callable[[], None],
        step: int | None = None,
    ) -> Arm:
        """Stop one operation of a save, and say when it is stopped.

        Counted are the operations of one worker that change files (making, opening for
        writing, writing, syncing, truncating, renaming, removing and linking; not reading)
        below the directory of that step's checkpoint, its temporary name included. The
        count begins with the save's first operation. Different threads of a worker write at
        once, so that the K-th operation need not be the same one in every trial.

        Args:
            worker: rank. k: from 1.
            moment: ``before``: the K-th operation waits, nothing of it is done. ``torn``:
                the first half of its bytes is in the file, and it waits; an operation that
                writes no bytes cannot be torn and waits untouched, which
                ``Arm.policy.torn`` tells. ``after``: it is done (here, in the worker's
                stead), and its thread waits, so that nothing that follows it happens.
            reached: called once from `deliver`, that is from the supervisor's loop, when
                the operation is stopped.
            step: the step whose save is meant; None: the first that begins from now on.

        Returns:
            A handle. The stopped thread waits until `Arm.release`, or ends with its
            process. Where a save has fewer than K operations nothing is ever reached.
        """
        policy = Nth(worker, k, moment, step)
        arm = Arm(policy, _reached=reached, _lift=self.lift)

        def begin() -> None:
            self._arms[policy] = arm
            self._set((*self._policies, policy))

        self._do(begin)
        return arm

    def begin_counting(self) -> None:
        """Count operations from 0."""
        self._do(self._counts.clear)

    @property
    def operations(self) -> dict[int, int]:
        """Operations that change files, by worker, since `begin_counting`."""
        return dict(self._counts)

    def deliver(self) -> None:
        """Call what waits for an operation that was reached."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.wakes)
        while not self._reached.empty():
            self._reached.get()()

    def close(self) -> None:
        """Stop answering. Workers that still run get ENOSYS from now on.

        Raises:
            HarnessError: the gate itself failed, so that operations went on unjudged.
        """
        if not self._open:
            return
        self._do(self._end)
        self._thread.join()
        self._epoll.close()
        self._socket.close()
        Path(self.address).unlink(missing_ok=True)
        os.close(self._command)
        os.close(self.wakes)
        if self._problem is not None:
            raise HarnessError(f"the storage gate failed: {self._problem}")

    def _do(self, command: Callable[[], None]) -> None:
        """Have the gate's thread do something, and wait until it is done."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                command()
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        self._commands.put(run)
        os.eventfd_write(self._command, 1)
        while True:
            with suppress(TimeoutError):
                done.result(_LOOK_S)
                return
            if not self._thread.is_alive():
                raise HarnessError("the storage gate has ended by itself: see the output above")

    # The thread

    def _run(self) -> None:
        while self._open:
            for fd, events in self._epoll.poll(self._patience()):
                if (handler := self._handlers.get(fd)) is not None:
                    self._handle(handler, events)
            now = time.monotonic()
            while self._delayed and self._delayed[0][0] <= now:
                finish(heapq.heappop(self._delayed)[2])

    def _handle(self, handler: Callable[[int], None], events: int) -> None:
        """One that fails must not end the thread: every worker would wait for ever."""
        try:
            handler(events)
        except Exception as error:
            self._problem = f"{type(error).__name__}: {error}"

    def _patience(self) -> float | None:
        """Seconds until something is due; what is due in years is looked at again before."""
        if not self._delayed:
            return None
        return min(max(0.0, self._delayed[0][0] - time.monotonic()), _LONGEST_WAIT_S)

    def _watch(self, fd: int, handler: Callable[[int], None]) -> None:
        self._handlers[fd] = handler
        self._epoll.register(fd, select.EPOLLIN)

    def _forget(self, fd: int) -> None:
        del self._handlers[fd]
        self._epoll.unregister(fd)

    def _obey(self, _: int) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._command)
        while not self._commands.empty():
            self._commands.get()()

    def _set(self, policies: tuple[Policy, ...]) -> None:
        self._policies = policies

    def _release(self, policy: Policy) -> None:
        self._set(tuple(p for p in self._policies if p is not policy))
        for waiting in [w for w in self._held if w.policy is policy]:
            self._held.remove(waiting)
            finish(waiting)

    def _end(self) -> None:
        self._open = False
        for worker in list(self._workers):
            self._bury(worker)

    def _accept(self, _: int) -> None:
        connection, _address = self._socket.accept()
        program = seccomp.program(self._reads)
        with suppress(OSError):
            connection.sendall(struct.pack("=I", len(program)) + program)
        self._watch(connection.fileno(), lambda _: self._adopt(connection))

    def _adopt(self, connection: socket.socket) -> None:
        """Take a worker's filter."""
        self._forget(connection.fileno())
        with connection, suppress(OSError):
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
            if not descriptors:
                return
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            worker = Worker(_PEER.unpack(raw)[0], Listener(descriptors[0]))
            self._workers.append(worker)
            self._watch(worker.listener.fd, lambda events: self._serve(worker, events))
            connection.sendall(b"k")

    def _serve(self, worker: Worker, events: int) -> None:
        if not events & select.EPOLLIN:  # it has ended
            self._bury(worker)
            return
        notification = worker.listener.receive()
        if notification is None:
            return
        try:
            self._judge(worker, notification)
        except Exception:
            seccomp.go_on(notification)
            raise

    def _bury(self, worker: Worker) -> None:
        """Forget a process that has ended, and what of its waits."""
        self._workers.remove(worker)
        self._forget(worker.listener.fd)
        worker.listener.close()
        for waiting in self._held:
            if waiting.worker is worker:
                waiting.forget()
        self._held = [w for w in self._held if w.worker is not worker]
        self._delayed = [d for d in self._delayed if d[2].worker is not worker]
        heapq.heapify(self._delayed)

    def _judge(self, worker: Worker, notification: Notification) -> None:
        call = self._calls.parse(notification, worker.pid)
        if call is None:
            seccomp.go_on(notification)
            return
        operation = self._operation(worker, call)
        decision, policy = self._decide(operation)
        waiting = Waiting(worker, notification, call, policy)
        match decision:
            case Fail(number):
                seccomp.answer(notification, 0, number)
            case Delay(seconds):
                due = operation.time_s + seconds
                heapq.heappush(self._delayed, (due, next(self._numbers), waiting))
            case Hold() | Tear() | HoldAfter():
                self._hold(waiting, operation, decision)
            case _:
                finish(waiting)

    def _operation(self, worker: Worker, call: Call) -> Operation:
        rank = self._rank_of(worker.pid)
        if rank is not None and call.kind not in READS:
            self._counts[rank] += 1
        number = 0 if rank is None else self._counts[rank]
        save = save_of(call.path, self._calls.roots)
        return Operation(rank, call.kind, call.path, call.bytes, number, time.monotonic(), save)

    def _decide(self, operation: Operation) -> tuple[Decision, Policy | None]:
        for policy in self._policies:
            decision = policy.decide(operation)
            if decision != CONTINUE:
                return decision, policy
        return CONTINUE, None

    def _hold(self, waiting: Waiting, operation: Operation, decision: Decision) -> None:
        if isinstance(decision, Tear) and waiting.call.tear is not None:
            try:
                waiting.call.tear()
            except OSError:  # it has ended meanwhile
                if isinstance(waiting.policy, Nth):
                    waiting.policy.torn = False
        if isinstance(decision, HoldAfter) and waiting.call.execute is not None:
            waiting.result = waiting.call.attempt()
        self._held.append(waiting)
        arm = self._arms.get(waiting.policy) if waiting.policy is not None else None
        if arm is not None:
            arm.operation = operation
            self._reached.put(arm._reached)
            os.eventfd_write(self.wakes, 1)
