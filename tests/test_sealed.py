"""Sealed files: whole, or as good as none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoverybench import sealed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(content=st.binary(max_size=200), where=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_cut_and_any_flipped_bit_is_noticed(
    tmp_path: Path, content: bytes, where: int, bit: int
) -> None:
    path = tmp_path / "new" / "file.bin"
    sealed.write(path, content)
    assert sealed.read(path) == content
    whole = bytearray(path.read_bytes())
    path.write_bytes(whole[: where % len(whole)])
    assert sealed.read(path) is None
    whole[where % len(whole)] ^= 1 << bit
    path.write_bytes(whole)
    assert sealed.read(path) is None


def test_a_missing_file_is_none_and_a_failed_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sealed.read(tmp_path / "none") is None

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        sealed.write(tmp_path / "file", b"x")
    assert list(tmp_path.iterdir()) == []
