"""Who speaks to the supervisor: connections, the members at their other ends, and their loss."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from recoverybench.job.far import Far, Line
from recoverybench.job.guests import Guest, Guests, Strangers
from recoverybench.job.hub import Hub
from recoverybench.job.loop import Loop
from recoverybench.job.member import Member
from recoverybench.job.near import Near
from recoverybench.job.reported import Reported
from recoverybench.journal_writer import Journal
from recoverybench.launchers.base import Launcher
from recoverybench.protocol import BadMessage, Board, JobSpec, Message, StepsSeen
from recoverybench.wire.ledger import RECONNECT_S, BadNumber


class Host(Protocol):
    """The job, as this module needs it."""

    def hear(self, member: Member, message: Message) -> None:
        """A member said that."""

    def lose(self, member: Member, why: str) -> None:
        """A member cannot be spoken to any more."""


class Reception:
    """See the module.

    Args:
        directory: private, for the Unix socket. launcher: of the workers.
        loop, journal: of the job. host: it. spec: what it is.

    Attributes:
        address: what workers connect to. steps: where their steps are seen.
    """

    def __init__(
        self,
        directory: Path,
        launcher: Launcher,
        loop: Loop,
        journal: Journal,
        host: Host,
        spec: JobSpec,
    ) -> None:
        self._loop, self._journal, self._host = loop, journal, host
        self._hub = Hub(directory / "s", launcher)
        self._strangers = Strangers(journal)
        self._by_pid: dict[int, Member] = {}
        self._by_slot: dict[tuple[int, int], Member] = {}
        self._open: set[Near] = set()
        self.address = self._hub.address
        self._guests: Guests | None = None
        self._reported: Reported | None = None
        self.steps: StepsSeen
        if self._hub.secret is None:
            loop.register(self._hub.socket, self._accept)
            self.steps = Board(Path(spec.board), spec.most_workers, create=True)
        else:
            guests = Guests(self._hub.secret, loop, self._strangers, self._enter)
            loop.register(self._hub.socket, lambda: guests.accept(self._hub.socket))
            self._guests = guests
            self.steps = self._reported = Reported(spec.most_workers)

    def expect(self, member: Member) -> None:
        """It was started just now, and will call."""
        self._by_pid[member.process.pid] = member
        self._by_slot[member.slot, member.attempt] = member

    def close(self) -> None:
        """Hang up on everybody, and listen no longer."""
        for near in self._open:
            near.close()
        for member in self._by_slot.values():
            if member.connection is not None:
                member.connection.close()
        if self._guests is not None:
            self._guests.close()
        self._strangers.close()
        self._hub.close()

    # Over the Unix socket

    def _accept(self) -> None:
        try:
            peer, _ = self._hub.socket.accept()
        except OSError:
            return
        peer.setblocking(False)
        near = Near(peer)
        self._open.add(near)
        members: list[Member] = []
        self._loop.register(peer, lambda: self._heard_near(near, members))

    def _heard_near(self, near: Near, members: list[Member]) -> None:
        """`members` has the one at the other end, once that is known."""
        try:
            for message in self._received(near, members):
                if members:
                    self._heard(members[0], message)
                else:
                    members.append(self._greet(near, message))
        except BadMessage as error:
            self._hang_up(near)
            if members:
                self._host.lose(members[0], f"said what is not in the protocol: {error}")
            else:
                self._strangers.note("unix", str(error))

    def _received(self, near: Near, members: list[Member]) -> list[Message]:
        messages = near.receive()
        if messages is None:
            self._hang_up(near)
            if members:
                self._host.lose(members[0], "hung up")
        return messages or []

    def _greet(self, near: Near, message: Message) -> Member:
        """Raises `BadMessage` for a stranger: nobody speaks before saying hello."""
        if message["kind"] != "hello":
            raise BadMessage(f"{message['kind']} before hello")
        member = self._by_pid.get(message["pid"])
        if member is None or member.connection is not None:
            raise BadMessage(f"process {message['pid']} is not expected")
        member.meet(near)
        return member

    def _hang_up(self, near: Near) -> None:
        self._open.discard(near)
        self._loop.unregister(near.socket)
        near.close()

    # Over TCP

    def _enter(self, guest: Guest, hello: Message) -> None:
        """Somebody who knows the secret calls, for the first time or again."""
        assert guest.frames is not None
        member = self._by_slot.get((hello["slot"], hello["attempt"]))
        far = None if member is None else member.connection
        if far is None and member is not None and member.alive and hello["received"] == 0:
            far = Far(hello["session"])
        if not isinstance(far, Far) or far.session != hello["session"] or far.over:
            self._refuse(guest, f"slot {hello['slot']} is not expected")
            return
        assert member is not None
        if far.line is not None:  # the worker has noticed before us that it was lost
            self._detach(far)
        line = Line(guest.socket, guest.frames, self._loop.await_writing)
        self._loop.register(guest.socket, self._reader(member, far, line))
        try:
            far.attach(line, hello["received"])
        except BadNumber as error:
            self._loop.unregister(guest.socket)
            self._refuse(guest, str(error))
            far.over = True
            self._host.lose(member, f"said what is not in the protocol: {error}")
            return
        if member.connection is None:
            member.meet(far)
        else:
            key = member.slot if member.rank is None else member.rank
            away_s = round(time.monotonic() - far.lost_at, 6)
            self._journal.log("channel_resumed", worker=key, attempt=member.attempt, seconds=away_s)

    def _refuse(self, guest: Guest, why: str) -> None:
        guest.refuse(why)
        guest.socket.close()
        self._strangers.note(guest.where, why)

    def _reader(self, member: Member, far: Far, line: Line) -> Callable[[], None]:
        def ready() -> None:
            if far.line is not line:
                return  # taken up again over another one in this very turn
            line.flush()
            self._heard_far(member, far)

        return ready

    def _heard_far(self, member: Member, far: Far) -> None:
        try:
            messages = far.receive()
            for message in messages or ():
                self._heard(member, message)
        except BadMessage as error:
            self._detach(far)
            far.over = True
            self._host.lose(member, f"said what is not in the protocol: {error}")
            return
        if messages is None:
            self._detach(far)
            if far.over:
                self._host.lose(member, "acknowledges nothing")
            elif member.alive:
                lost = far.lost
                self._loop.after(RECONNECT_S, lambda: self._give_up(member, far, lost))

    def _detach(self, far: Far) -> None:
        assert far.line is not None
        self._loop.unregister(far.line.socket)
        far.detach()

    def _give_up(self, member: Member, far: Far, lost: int) -> None:
        """Too late for the worker, if it has not come since the connection was lost."""
        if far.lost == lost and far.line is None and not far.over:
            far.over = True
            self._host.lose(member, f"hung up, and did not come back for {RECONNECT_S:g} s")

    def _heard(self, member: Member, message: Message) -> None:
        kind = message["kind"]
        if kind == "progress" and self._reported is not None:
            self._reported.hear(member, message)
        elif kind in ("hello", "progress"):
            raise BadMessage(f"{kind} out of its place")
        else:
            self._host.hear(member, message)
