"""Options of checkpoints: every combination has one spelling, and nonsense is refused in a line."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.plan.checkpoints import DEFAULT, NAMED, options_of, read, resolved, spelled
from recoverybench.protocol import CheckpointOptions, JobSpec

SIZES = st.integers(4096, 10**12)
OPTIONS = st.builds(
    CheckpointOptions,
    ocdbt=st.booleans(),
    compression=st.booleans(),
    zarr=st.sampled_from([2, 3]),
    chunk=st.none() | SIZES,
    concurrent=st.none() | st.integers(1, 10**6).map(lambda n: n * 10**9),
    replica_parallel=st.booleans(),
    io=st.sampled_from(["buffered", "memmap", "direct"]),
    straight=st.booleans(),
)


@given(OPTIONS)
def test_what_is_spelled_is_read_again(options: CheckpointOptions) -> None:
    text = spelled(options)
    assert options_of(text) == options
    assert read(text, "here") == text


@given(OPTIONS)
def test_every_spelling_of_the_same_is_one_cell(options: CheckpointOptions) -> None:
    said = {f.name.replace("_", "-"): getattr(options, f.name) for f in dataclasses.fields(options)}
    words = {True: "on", False: "off"}
    parts = []
    for key, value in said.items():
        if value is None:
            continue
        text = words[value] if isinstance(value, bool) else str(value)
        if key == "chunk":
            text += "B"
        if key == "concurrent":
            text = f"{int(value) // 10**9}GB"
        parts.append(f"{key}={text}")
    for name in NAMED:
        assert read(",".join([name, *reversed(parts)]), "here") == spelled(options)


@pytest.mark.parametrize(
    ("text", "spelling"),
    [
        ("default", "default"),
        ("plain", "plain"),
        ("compression=off , ocdbt=off", "plain"),
        ("default,zarr=3", "zarr3"),
        ("plain,zarr=3", "zarr3-plain"),
        ("plain,chunk=64MB", "plain,chunk=64MB"),
        ("default,chunk=64000kB", "chunk=64MB"),
        ("plain,straight=on", "straight"),
        ("replica-parallel=off", "replica-parallel=off"),
        ("zarr3,concurrent=2GB", "zarr3,concurrent=2GB"),
    ],
)
def test_one_spelling(text: str, spelling: str) -> None:
    assert read(text, "here") == spelling


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fast", "here = 'fast': expected one of default, plain, "),
        (3, "here = 3: expected one of default, plain, "),
        ("", "here = '': expected one of default, "),
        ("plain,", "here = 'plain,': expected after plain nothing but ocdbt=…, "),
        ("plain,speed=9", "here = 'plain,speed=9': expected after plain nothing but ocdbt=…, "),
        ("ocdbt=yes", "here = 'ocdbt=yes': expected ocdbt to be on or off, not 'yes'"),
        ("zarr=4", "here = 'zarr=4': expected zarr to be 2 or 3, not '4'"),
        ("chunk=1MiB", "here = 'chunk=1MiB': expected chunk to be a size of at least 4096B"),
        ("chunk=0MB", "here = 'chunk=0MB': expected chunk to be a size"),
        ("concurrent=1500MB", "here = 'concurrent=1500MB': expected concurrent to be whole"),
        ("io=fast", "here = 'io=fast': expected io to be buffered, memmap or direct"),
        ("zarr=3,zarr=3", "here = 'zarr=3,zarr=3': expected each option once, not zarr twice"),
        ("zarr=3,plain", "here = 'zarr=3,plain': expected after default nothing but "),
    ],
)
def test_what_is_refused(value: object, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(value, "here")
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_nothing_is_set_by_default() -> None:
    assert resolved(DEFAULT) is None
    assert resolved("default,ocdbt=on") is None
    plain = resolved("plain")
    assert plain is not None and CheckpointOptions(**plain) == options_of("plain")


def test_the_sets_differ() -> None:
    sets = [options for _, options in NAMED.values()]
    assert len(set(sets)) == len(sets)
    assert all(spelled(options) == name for name, (_, options) in NAMED.items())


def test_a_job_spec_of_an_older_release_has_none() -> None:
    fields = {f.name: f for f in dataclasses.fields(JobSpec)}
    assert fields["checkpoint"].default is None
