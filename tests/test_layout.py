"""Layouts: which dimension of a leaf is split along which axis of a mesh."""

from __future__ import annotations

import pytest

from recoverybench.plan.workloads import why_not_on
from recoverybench.topology import Topology
from recoverybench.worker.layout import Layout
from recoverybench.workload_name import WorkloadName

LAYOUT = Layout(
    {"qkv": (None, "embed", "heads"), "square": ("embed", "embed")},
    {"embed": "fsdp", "heads": "tensor"},
)


@pytest.mark.parametrize(
    ("name", "shape", "split"),
    [
        ("params.qkv", (2, 8, 12), (None, "fsdp", "tensor")),
        ("optimizer.0.mu.qkv", (2, 8, 12), (None, "fsdp", "tensor")),
        ("optimizer.0.mu", (192,), (None,)),
        ("params.qkv", (192,), (None,)),
        ("params.square", (8, 8), ("fsdp", None)),
        ("step", (), ()),
    ],
)
def test_a_leaf_is_split_as_its_parameter_is(
    name: str, shape: tuple[int, ...], split: tuple[str | None, ...]
) -> None:
    assert LAYOUT.split(name, shape) == split


def test_changes_are_of_the_type_of_what_they_change() -> None:
    name = WorkloadName.of("mlp:tiny,hidden=64,learning_rate=1e-3,joined_gradients=false")
    preset = {"hidden": 128, "learning_rate": 3e-3, "joined_gradients": True, "seq_len": 32}
    assert name.preset_with_changes(preset) == {
        **preset,
        "hidden": 64,
        "learning_rate": 1e-3,
        "joined_gradients": False,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("hidden=1.5", "whole number"),
        ("hidden=-1", "above 0"),
        ("hidden=", "whole number"),
        ("width=3", "hidden, joined, rate"),
        ("joined=yes", "true or false"),
        ("rate=nan", "above 0"),
        ("rate=inf", "above 0"),
    ],
)
def test_other_changes_are_refused(change: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        WorkloadName.of(f"mlp:tiny,{change}").typed_changes(
            {"hidden": 128, "rate": 0.5, "joined": True}
        )


@pytest.mark.parametrize("text", ["mlp:tiny,", "mlp:tiny,hidden", "mlp:tiny,hidden=1,hidden=2"])
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="entry=value"):
        WorkloadName.of(text)


@pytest.mark.parametrize("text", ["train.py", "a/train.py:", "a/train.py:no-name", "x.py:a.b"])
def test_a_file_needs_a_function(text: str) -> None:
    with pytest.raises(ValueError, match=r"file\.py:factory"):
        WorkloadName.of(text)


def test_the_function_of_a_file() -> None:
    name = WorkloadName.of("/tmp/a b/train.py:make")
    assert (name.family, name.preset, name.own) == ("/tmp/a b/train.py", "make", True)


@pytest.mark.parametrize(
    ("workload", "topology", "said"),
    [
        ("transformer:tiny", "3x1", None),
        ("transformer:tiny", "5x1", "batch of 12"),
        ("transformer:tiny,batch_size=10", "5x1", None),
        ("transformer:tiny", "5x1:fsdp=5", "batch of 12"),
        ("transformer:tiny", "2x2:data=2,expert=2", "expert is none of them"),
        ("transformer:tiny", "2x2:data=2,tensor=2", None),
        ("transformer:tiny", "2x4:data=2,tensor=4", "kv_heads, which is 2"),
    ],
)
def test_what_a_topology_asks_of_a_workload(workload: str, topology: str, said: str | None) -> None:
    why = why_not_on(workload, Topology.of(topology))
    assert why is None if said is None else said in str(why)
