"""Reading journals that may be cut at any byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoverybench.analysis.journal import JournalError, parse_journal, read_journal, read_trial
from recoverybench.errors import EXIT_HARNESS
from recoverybench.vocabulary import JOURNAL_SCHEMA


def head(worker: int | None = 0) -> dict[str, Any]:
    return {
        **{"t": 1, "event": "journal", "worker": worker, "attempt": 0},
        **{"schema": JOURNAL_SCHEMA, "boot_id": "b", "clock_offset_ns": 0, "pid": 7},
    }


def encode(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def clock(**change: Any) -> bytes:
    """What the supervisor says of a worker's clock."""
    line = {"t": 1, "event": "clock", "worker": 0, "attempt": 0}
    return json.dumps({**line, "at": 1, "offset_ns": -5, "bound_ns": 3, **change}).encode()


def bodies() -> st.SearchStrategy[list[dict[str, Any]]]:
    line = st.fixed_dictionaries(
        {
            "t": st.integers(0, 2**62),
            "event": st.sampled_from(["step", "span", "a later release's event"]),
            "worker": st.none() | st.integers(0, 9),
            "attempt": st.integers(0, 9),
        },
        optional={"message": st.text('a\n"\\é🙂\u2028', max_size=8), "loss": st.floats(-9, 9)},
    )
    return st.lists(line, max_size=4)


@settings(max_examples=40)
@given(bodies())
def test_a_journal_cut_at_any_byte_keeps_every_finished_line(body: list[dict[str, Any]]) -> None:
    lines = [head(), *body]
    whole = encode(lines)
    for cut in range(len(whole) + 1):
        journal = parse_journal(Path("3.1.jsonl"), whole[:cut])
        finished = whole[:cut].count(b"\n")
        assert list(journal.lines) == lines[:finished]
        assert journal.dropped == (cut > 0 and whole[cut - 1 : cut] != b"\n")
        assert (journal.worker_slot, journal.attempt) == (3, 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "is not a line of JSON"),
        (b"", "is not a line of JSON"),
        (b"\x00\x00", "is not a line of JSON"),
        (b"\xff", "is not a line of JSON"),
        (b"[" * 100_000, "is not a line of JSON"),
        (b"3", "3 is not a JSON object"),
        (b'{"event": "step", "worker": 0, "attempt": 0}', "t = missing"),
        (b'{"t": 1.5, "event": "step", "worker": 0, "attempt": 0}', "t = 1.5"),
        (b'{"t": 1%s, "event": "step", "worker": 0, "attempt": 0}' % (b"0" * 20), "t = 1000"),
        (clock(at=None), "at = None"),
        (clock(at=2**63), "at = 9223372036854775808: expected a whole number of ns from -9223372"),
        (clock(offset_ns=1.5), "offset_ns = 1.5"),
        (clock(offset_ns=-(2**64)), "offset_ns = -18446744073709551616"),
        (clock(bound_ns=-1), "bound_ns = -1: expected a whole number of ns from 0 to 9223372"),
        (clock(bound_ns=True), "bound_ns = True"),
        (b'{"t": true, "event": "step", "worker": 0, "attempt": 0}', "t = True"),
        (b'{"t": 1, "event": 3, "worker": 0, "attempt": 0}', "event = 3"),
        (b'{"t": 1, "event": "step", "worker": "0", "attempt": 0}', "worker = '0'"),
        (b'{"t": 1, "event": "step", "attempt": 0}', "worker = missing"),
        (b'{"t": 1, "event": "step", "worker": 0}', "attempt = missing"),
    ],
)
def test_a_finished_line_that_is_corrupt_names_file_and_line(
    tmp_path: Path, line: bytes, words: str
) -> None:
    path = tmp_path / "0.0.jsonl"
    path.write_bytes(encode([head()]) + line + b"\n" + encode([head()]))
    with pytest.raises(JournalError) as caught:
        read_journal(path)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == EXIT_HARNESS


def test_a_clock_line_as_it_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "supervisor.0.jsonl"
    path.write_bytes(encode([head(None)]) + clock() + b"\n")
    assert read_journal(path).lines[1]["offset_ns"] == -5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": JOURNAL_SCHEMA + 1}, f"schema = {JOURNAL_SCHEMA + 1}"),
        ({"schema": None}, "schema = None"),
        ({"event": "step"}, "event = 'step'"),
    ],
)
def test_a_first_line_that_is_not_ours(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "supervisor.0.jsonl"
    path.write_bytes(encode([{**head(None), **change}]))
    with pytest.raises(JournalError) as caught:
        read_journal(path)
    assert str(caught.value).startswith(f"{path}:1: {words}: expected ")


def test_a_trial_is_all_its_files_in_order_of_time(tmp_path: Path) -> None:
    def line(t: int, worker: int | None) -> dict[str, Any]:
        return {"t": t, "event": "x", "worker": worker, "attempt": 0}

    (tmp_path / "10.0.jsonl").write_bytes(encode([head(10), line(5, 10)]))
    (tmp_path / "2.1.jsonl").write_bytes(encode([head(2), line(3, 2)]) + b'{"t": 9')
    (tmp_path / "2.0.jsonl").write_bytes(b'{"t"')
    (tmp_path / "supervisor.0.jsonl").write_bytes(encode([head(None), line(4, None)]))
    (tmp_path / "notes.txt").write_text("not a journal")
    trial = read_trial(tmp_path)
    slots = [(journal.worker_slot, journal.attempt) for journal in trial.all]
    assert slots == [(None, 0), (2, 0), (2, 1), (10, 0)]
    assert trial.dropped == 2
    assert [entry["t"] for entry in trial.lines] == [1, 1, 1, 3, 4, 5]


def test_a_trial_without_journals_and_a_foreign_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journals of that trial"):
        read_trial(tmp_path / "0007")
    (tmp_path / "worker-1.jsonl").write_bytes(b"")
    with pytest.raises(JournalError, match=r"worker-1\.jsonl: expected a name such as"):
        read_trial(tmp_path)
