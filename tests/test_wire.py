"""How messages travel: lines, kinds, the handshake, frames and numbers; all of it pure."""

from __future__ import annotations

import dataclasses
import json
from collections import deque
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from recoverybench.protocol import FROM_WORKER, TO_WORKER, BadMessage, JobSpec, Message, Place
from recoverybench.wire import handshake
from recoverybench.wire.address import _FORM, Address
from recoverybench.wire.frames import BadFrame, Frame, Frames
from recoverybench.wire.handshake import NotOurs
from recoverybench.wire.ledger import ACKNOWLEDGE_EVERY, MOST_KEPT, BadNumber, Ledger, Overrun
from recoverybench.wire.lines import MAX_LINE, Lines, decode, encode

SECRET = bytes(range(32))
JOB = "0123456789abcdef"
NO_ADDRESSES = (
    *("tcp://", f"tcp://h/{JOB}", f"tcp://:1/{JOB}", f"tcp://h:0/{JOB}", f"tcp://h:65536/{JOB}"),
    *(f"h:1/{JOB}", "/tmp/s", "tcp://h:1", f"tcp://h:1/{JOB[1:]}", f"tcp://h:1/{JOB}\n"),
    f"tcp://h:\u0661/{JOB}",
)
NONCES = st.binary(min_size=32, max_size=32)

# --- lines ------------------------------------------------------------------------------------

PIECES = st.lists(st.binary(max_size=40), max_size=20)


@given(PIECES, st.integers(0, 60))
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes], longest: int) -> None:
    whole = b"".join(pieces)
    *expected, rest = whole.split(b"\n")
    lines, found = Lines(longest), []
    too_long = any(len(line) > longest for line in (*expected, rest))
    try:
        for piece in pieces:
            found += lines.feed(piece)
    except BadMessage:
        assert too_long
    else:
        assert found == expected and lines.waiting == len(rest) and not too_long


def test_a_line_without_an_end_is_not_kept_for_ever() -> None:
    lines = Lines()
    with pytest.raises(BadMessage, match=f"more than {MAX_LINE} bytes"):
        for _ in range(MAX_LINE // 65536 + 2):
            lines.feed(bytes(65536))


# --- kinds ------------------------------------------------------------------------------------

GOOD: dict[type, Any] = {
    int: 7,
    str: "x",
    bool: True,
    float: 0.5,
    dict: {"a": 1},
    type(None): None,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
BOTH = [(side, kind) for side in (FROM_WORKER, TO_WORKER) for kind in side]


def good(side: Any, kind: str) -> Message:
    return {"kind": kind, **{name: GOOD[types[0]] for name, types in side[kind].items()}}


@pytest.mark.parametrize(("side", "kind"), BOTH)
def test_every_kind_has_its_fields_and_no_others(side: Any, kind: str) -> None:
    message = good(side, kind)
    assert decode(encode(message), side) == message
    for name, types in side[kind].items():
        for bad in ({k: v for k, v in message.items() if k != name}, {**message, name: [1]}):
            with pytest.raises(BadMessage, match=f"{kind}: {name} is"):
                decode(encode(bad), side)
        for odd in set(GOOD) - set(types):
            with pytest.raises(BadMessage, match=f"{kind}: {name} is a {odd.__name__}"):
                decode(encode({**message, name: GOOD[odd]}), side)
        if int in types:
            with pytest.raises(BadMessage, match="out of range"):
                decode(encode({**message, name: 1 << 63}), side)
    with pytest.raises(BadMessage, match="unknown field 'more'"):
        decode(encode({**message, "more": 1}), side)


@given(st.binary(max_size=200) | JSON.map(lambda x: json.dumps(x).encode()))
def test_whatever_is_said_is_a_message_or_refused(line: bytes) -> None:
    for side in (FROM_WORKER, TO_WORKER):
        try:
            message = decode(line, side)
        except BadMessage as error:
            assert len(str(error)) < 200 and "\n" not in str(error)
        else:
            assert message["kind"] in side


@given(st.sampled_from(BOTH), st.dictionaries(st.text(max_size=8), JSON, max_size=3), JSON)
def test_a_message_with_something_else_in_it_is_refused(
    which: tuple[Any, str], more: dict[str, Any], value: Any
) -> None:
    side, kind = which
    message = good(side, kind)
    changed = {**message, **{name: value for name in list(side[kind])[:1]}, **more}
    assume(json.dumps(changed) != json.dumps(message))
    try:
        found = decode(encode(changed), side)
    except BadMessage:
        return
    assert found.keys() == {"kind", *side[found["kind"]]}


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 100_000,
        b'{"kind":' * 50_000,
        b'{"kind":"pong","id":' + b"9" * 100_000 + b"}",
        b'{"kind":"pong","id":NaN}',
        b"\xff\xfe",
        b"",
        b"null",
        b'{"kind":{}}',
        b'{"kind":null}',
    ],
)
def test_lines_that_are_made_to_hurt_are_refused(line: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(line, FROM_WORKER)


def test_what_the_supervisor_says_is_in_the_table() -> None:
    assert set(TO_WORKER["spec"]) == {f.name for f in dataclasses.fields(JobSpec)}
    place = Place(1, 2, 3, "h:1", 3, 2, "3x1", None)
    assert Place.of(decode(encode(place.as_message("rejoin")), TO_WORKER)) == place


@pytest.mark.parametrize("host", ["127.0.0.1", "node-3.cluster.local", "::1", "fe80::1%eth0"])
def test_addresses_come_back(host: str) -> None:
    address = Address(host, 4711, JOB)
    assert Address.of(str(address)) == address and address.where == (host, 4711)


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        Address.of(address)


@given(st.from_regex(_FORM, fullmatch=True) | st.text())
@example(f"tcp://[::1]:65535/{JOB}")
def test_a_text_is_an_address_as_it_is_or_none(text: str) -> None:
    with suppress(ValueError):
        assert str(Address.of(text)) == text


def test_each_job_of_a_run_has_a_secret_of_its_own() -> None:
    made = {handshake.secret_of_job(SECRET, job) for job in (JOB, JOB[::-1])}
    made |= {handshake.secret_of_job(SECRET[::-1], JOB), SECRET}
    assert len(made) == 4 and {len(each) for each in made} == {32}


# --- the handshake ----------------------------------------------------------------------------


@given(NONCES, NONCES)
def test_both_sides_have_the_same_keys_and_each_side_its_own(ours: bytes, theirs: bytes) -> None:
    challenged = handshake.challenge(ours)
    answered = handshake.answer(SECRET, challenged, theirs)
    welcomed, keys = handshake.admit(SECRET, ours, answered)
    assert handshake.confirm(SECRET, challenged, theirs, welcomed) == keys
    assert keys.worker != keys.supervisor and len(keys.worker) == 32
    assert max(map(len, (challenged, answered, welcomed))) < handshake.LONGEST
    assert SECRET.hex() not in repr(keys) and keys.worker.hex() not in repr(keys)


@given(NONCES, NONCES, st.binary(min_size=32, max_size=32))
def test_who_does_not_know_the_secret_is_neither_worker_nor_supervisor(
    ours: bytes, theirs: bytes, guess: bytes
) -> None:
    assume(guess != SECRET)
    challenged = handshake.challenge(ours)
    with pytest.raises(NotOurs):
        handshake.admit(SECRET, ours, handshake.answer(guess, challenged, theirs))
    answered = handshake.answer(guess, challenged, theirs)
    welcomed, _ = handshake.admit(guess, ours, answered)
    with pytest.raises(NotOurs):
        handshake.confirm(SECRET, challenged, theirs, welcomed)


@given(NONCES, NONCES, NONCES)
def test_an_old_handshake_proves_nothing(old: bytes, new: bytes, theirs: bytes) -> None:
    assume(old != new)
    answered = handshake.answer(SECRET, handshake.challenge(old), theirs)
    with pytest.raises(NotOurs, match="does not hold"):
        handshake.admit(SECRET, new, answered)
    welcomed, _ = handshake.admit(SECRET, old, answered)
    with pytest.raises(NotOurs):
        handshake.confirm(SECRET, handshake.challenge(new), theirs, welcomed)


def test_a_proof_that_is_sent_back_proves_nothing() -> None:
    nonce = bytes(32)
    answered = handshake.answer(SECRET, handshake.challenge(nonce), nonce)
    reflected = b"welcome " + answered.split()[2]
    with pytest.raises(NotOurs):
        handshake.confirm(SECRET, handshake.challenge(nonce), nonce, reflected)


@given(NONCES, st.binary(max_size=300))
def test_whatever_a_stranger_says_he_is_not_let_in(nonce: bytes, said: bytes) -> None:
    with pytest.raises(NotOurs):
        handshake.admit(SECRET, nonce, said)
    with pytest.raises(NotOurs):
        handshake.answer(SECRET, said, nonce)
    with pytest.raises(NotOurs):
        handshake.confirm(SECRET, handshake.challenge(nonce), nonce, said)


@given(NONCES, NONCES, st.integers(0, 136), st.integers(1, 255))
def test_an_answer_with_one_byte_changed_is_none(
    ours: bytes, theirs: bytes, where: int, change: int
) -> None:
    answered = bytearray(handshake.answer(SECRET, handshake.challenge(ours), theirs))
    assume(where < len(answered))
    answered[where] ^= change
    with pytest.raises(NotOurs):
        handshake.admit(SECRET, ours, bytes(answered))


@pytest.mark.parametrize("text", ["", "abc", "0" * 63, "0" * 65, "G" * 64, "AB" * 32, " " * 64])
def test_a_secret_that_is_none_is_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="expected 64 hexadecimal digits") as caught:
        handshake.secret_of(text)
    assert len(text) < 3 or text not in str(caught.value)


# --- frames -----------------------------------------------------------------------------------

FRAMES = st.lists(
    st.builds(
        Frame,
        st.integers(0, 999_999_999_999),
        st.integers(0, 999_999_999_999),
        st.binary(max_size=50).filter(lambda b: b"\n" not in b),
    ),
    min_size=1,
    max_size=8,
)


def pair() -> tuple[Frames, Frames]:
    return Frames(b"w" * 32, b"s" * 32), Frames(b"s" * 32, b"w" * 32)


@given(FRAMES)
def test_frames_come_back_in_their_order(frames: list[Frame]) -> None:
    worker, supervisor = pair()
    assert [supervisor.open(worker.seal(frame)[:-1]) for frame in frames] == frames


@given(FRAMES, st.data())
def test_nobody_on_the_way_can_change_repeat_or_leave_out(
    frames: list[Frame], data: st.DataObject
) -> None:
    worker, supervisor = pair()
    lines = [worker.seal(frame)[:-1] for frame in frames]
    changed = list(lines)
    at = data.draw(st.integers(0, len(lines) - 1))
    what = data.draw(st.sampled_from(["byte", "repeat", "leave out", "swap", "back", "foreign"]))
    if what == "byte":
        where = data.draw(st.integers(0, len(lines[at]) - 1))
        other = bytearray(lines[at])
        other[where] ^= data.draw(st.integers(1, 255))
        changed[at] = bytes(other)
    elif what == "repeat":
        changed.insert(at, lines[at])
    elif what == "leave out":
        del changed[at]
    elif what == "swap":
        there = data.draw(st.integers(0, len(lines) - 1))
        changed[at], changed[there] = changed[there], changed[at]
    elif what == "back":
        changed[at] = supervisor.seal(frames[at])[:-1]
    else:
        changed[at] = Frames(b"x" * 32, b"y" * 32).seal(frames[at])[:-1]
    opened = []
    try:
        for line in changed:
            opened.append(supervisor.open(line))
    except BadFrame:
        pass
    assert opened == frames[: len(opened)]  # what is accepted is what was said, from the first on
    same = changed == lines or changed == lines[: len(changed)]
    assert same or len(opened) < len(changed)


@given(st.binary(max_size=200))
def test_whatever_comes_is_a_frame_or_refused(line: bytes) -> None:
    with pytest.raises(BadFrame):
        pair()[0].open(line)


# --- numbers ----------------------------------------------------------------------------------


class TwoSides(RuleBasedStateMachine):
    """Two ledgers and a network that loses connections, with what is under way in them."""

    def __init__(self) -> None:
        super().__init__()
        self.ledgers = Ledger(), Ledger()
        self.said: tuple[list[bytes], list[bytes]] = ([], [])
        self.heard: tuple[list[bytes], list[bytes]] = ([], [])
        self.way: tuple[deque[Frame], deque[Frame]] = (deque(), deque())
        self.up = True

    def put(self, side: int, number: int, body: bytes) -> None:
        if self.up:
            self.way[side].append(Frame(number, self.ledgers[side].telling(), body))

    @rule(side=st.integers(0, 1))
    def say(self, side: int) -> None:
        body = b"%d" % len(self.said[side])
        self.said[side].append(body)
        self.put(side, self.ledgers[side].number(body), body)

    @precondition(lambda self: self.up)
    @rule(side=st.integers(0, 1), most=st.integers(1, 40))
    def deliver(self, side: int, most: int) -> None:
        other = self.ledgers[1 - side]
        for _ in range(min(most, len(self.way[side]))):
            frame = self.way[side].popleft()
            other.acknowledged(frame.acknowledged)
            if frame.number:
                other.accept(frame.number)
                self.heard[1 - side].append(frame.body)
                if other.owes:
                    self.put(1 - side, 0, b"")

    @precondition(lambda self: self.up)
    @rule()
    def lose(self) -> None:
        self.up = False
        for way in self.way:
            way.clear()

    @precondition(lambda self: not self.up)
    @rule()
    def take_up(self) -> None:
        self.up = True
        for side in (0, 1):
            self.ledgers[side].acknowledged(self.ledgers[1 - side].received)
        for side in (0, 1):
            for number, body in self.ledgers[side].kept():
                self.put(side, number, body)

    @invariant()
    def everything_arrives_once_and_in_order(self) -> None:
        for side in (0, 1):
            heard = self.heard[1 - side]
            assert heard == self.said[side][: len(heard)]
            kept = [body for _, body in self.ledgers[side].kept()]
            assert kept == self.said[side][len(self.said[side]) - len(kept) :]

    def teardown(self) -> None:
        if not self.up:
            self.take_up()
        for side in (0, 1):
            self.deliver(side, 1000)
            assert self.heard[1 - side] == self.said[side]


TestTwoSides = TwoSides.TestCase


def test_what_a_ledger_keeps_is_bounded() -> None:
    ledger, other = Ledger(), Ledger()
    for each in range(MOST_KEPT):
        number = ledger.number(b"")
        other.accept(number)
        assert other.owes == (each + 1 >= ACKNOWLEDGE_EVERY)
    with pytest.raises(Overrun):
        ledger.number(b"")
    ledger.acknowledged(other.telling())
    assert ledger.kept() == [] and not other.owes


def test_numbers_that_cannot_be_are_refused() -> None:
    ledger = Ledger()
    ledger.number(b"")
    for number in (2, -1):
        with pytest.raises(BadNumber):
            ledger.acknowledged(number)
        with pytest.raises(BadNumber):
            ledger.accept(number)
    ledger.acknowledged(1)
    with pytest.raises(BadNumber):
        ledger.acknowledged(0)
