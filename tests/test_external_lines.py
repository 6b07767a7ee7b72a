"""Lines of real frameworks, as they were published, and what the shipped patterns read in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoverybench.errors import UsageError
from recoverybench.external import expressions
from recoverybench.external.lines import Patterns, Reader, Seen, described, library, read_patterns


def reader(name: str, **more: Any) -> Reader:
    return Reader(read_patterns({"use": name, **more}, "patterns"))


def read(name: str, *lines: str) -> list[Seen]:
    one = reader(name)
    return [seen for line in lines for seen in one.read(line)]


def test_the_library_has_what_is_promised_and_says_what_it_is() -> None:
    assert set(library()) == {"maxtext", "torchtitan", "lightning", "hf-trainer", "plain"}
    assert all(text for _, text in described())


@pytest.mark.parametrize(
    "line",
    [
        # https://github.com/AI-Hypercomputer/maxtext, docs/guides/monitoring_and_debugging/
        # understand_logs_and_metrics.md, and metric_logger.py for the newer form.
        "completed step: 8, seconds: 0.159, TFLOP/s/device: 57.108, Tokens/s/device: 8606.120, "
        "total_weights: 65536, loss: 7.912",
        "completed step: 8, seconds: 0.159, TFLOP/s/device: 57.108, Tokens/s/device: 8606.120, "
        "total_weights: 65536, loss: 7.912, lm_loss: 7.912, perplexity: 2729.848",
        "I0425 09:31:22.506291 133066620835648 metric_logger.py:185] completed step: 8, seconds: "
        "1.613, TFLOP/s/device: 85.866, Tokens/s/device: 12942.7, total_weights: 393216, "
        "loss: 7.912",
        "[Rampup Batch Size Phase], completed step: 8, seconds: 0.159, total_weights: 65536, "
        "loss: 7.912, lm_loss: 7.900, perplexity: 2729.848",
    ],
)
def test_maxtext_steps(line: str) -> None:
    assert read("maxtext", line) == [Seen("step", 8, "7.912")]


def test_maxtext_restores_saves_and_elastic_events() -> None:
    found = read(
        "maxtext",
        "restoring from this run's directory step 40",
        "Saved a checkpoint at step 50.",
        "Started an asynchronous checkpoint save for step 60",  # begun, and not durable
        "Elastic attempt 1",  # the first is no failure
        "Elastic attempt 2 out of 10",
        "Elastic event detected",
    )
    assert found == [
        Seen("restore_begin", 40),
        Seen("saved", 50),
        Seen("error"),
        Seen("error"),
    ]


def test_torchtitan() -> None:
    found = read(
        "torchtitan",
        # https://github.com/pytorch/torchtitan/pull/3393
        "[rank0]:[titan] 2026-05-18 16:06:11,346 - root - INFO - step: 67  loss:  2.73186  "
        "grad_norm:  0.3138  memory:  9.47GiB(65.02%)  tps: 7,228  tflops: 0.52  mfu: 0.17%",
        # https://github.com/pytorch/torchtitan/pull/2389
        "[titan] 2026-02-24 19:46:17,508 - root - INFO - step:  4  loss:  7.62585  grad_norm: "
        "26.6250  memory: 66.91GiB(37.51%)  tps: 10,050  tflops: 314.71  mfu: 13.99%",
        # https://github.com/pytorch/torchtitan/pull/1287
        "[rank0]:[titan] 2025-06-25 13:10:45,513 - root - INFO - Loading the checkpoint at "
        "step 400.",
        "[rank0]:[titan] 2025-06-25 13:10:56,821 - root - INFO - Finished loading the checkpoint "
        "in 11.31 seconds.",
        "[rank0]:[titan] 2025-06-25 13:10:56,821 - root - INFO - Training starts at step 401.",
    )
    assert found == [
        Seen("step", 67, "2.73186", 0),
        Seen("step", 4, "7.62585"),
        Seen("restore_begin", 400, None, 0),
        Seen("restore_end", None, None, 0),
    ]


def test_colours_are_no_part_of_a_line() -> None:
    line = (
        "\x1b[31m[titan] 2026-02-24 19:46:17,508 - root - INFO - \x1b[0m\x1b[31mstep:  4  "
        "\x1b[32mloss:  7.62585  \x1b[33mmemory: 66.91GiB(37.51%)\x1b[0m"
    )
    assert read("torchtitan", line) == [Seen("step", 4, "7.62585")]


def test_lightning_counts_within_the_epoch_and_draws_its_bar_again() -> None:
    # https://github.com/Lightning-AI/pytorch-lightning/issues/4225
    found = read(
        "lightning",
        "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=10.072, v_num=193315]",
        "Epoch 0:  22%|██▏       | 4/18 [00:17<01:02,  4.47s/it, loss=9.947, v_num=193315] ",
        "Epoch 2:   0%|          | 0/18 [00:00<?, ?it/s] ",  # nothing is done yet
        "Epoch 2:   6%|▌         | 1/18 [00:08<02:29,  8.77s/it]",
        "Restored all states from the checkpoint at /output/checkpoints/0-1250.ckpt",
    )
    assert found == [
        Seen("step", 4, "10.072"),
        Seen("step", 4, "9.947", again=True),
        Seen("step", 37),
        Seen("restore_end"),
    ]


def test_hugging_face_prints_the_loss_before_the_step() -> None:
    found = read(
        "hf-trainer",
        " 10%|█         | 10/100 [00:05<00:45,  2.00it/s]",
        # https://github.com/huggingface/transformers/issues/33336
        "{'loss': 2.1048, 'grad_norm': 2.1349170207977295, 'learning_rate': 4.99e-05, "
        "'epoch': 0.0}",
        " 11%|█         | 11/100 [00:05<00:45,  2.00it/s]",
        # https://github.com/huggingface/sentence-transformers/issues/3756
        "{'loss': '0.91', 'grad_norm': '0.8618', 'learning_rate': '3.094e-07', 'epoch': '0.6623'}",
        " 12%|█         | 12/100 [00:05<00:45,  2.00it/s]",
    )
    assert found == [
        Seen("step", 10),
        Seen("step", 11, "2.1048"),
        Seen("step", 12, "0.91"),
    ]


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("step 12 loss 3.456", Seen("step", 12, "3.456")),
        ("step: 12, loss: 3.456", Seen("step", 12, "3.456")),
        ("step=12 lr=1e-3 loss=3.456e-1", Seen("step", 12, "3.456e-1")),
        ("iteration 12: loss 3.456", Seen("step", 12, "3.456")),
        ("[rank 1] step 12 loss nan", Seen("step", 12, "nan", 1)),
        ("rank 1: step 12", Seen("step", 12, None, 1)),
        ("[1] step 12 loss 3.456", Seen("step", 12, "3.456", 1)),
        ("rank 1: saved step 12", Seen("saved", 12, None, 1)),
        ("restored step 12", Seen("restore_end", 12)),
    ],
)
def test_plain_lines(line: str, seen: Seen) -> None:
    assert read("plain", line) == [seen]


def test_a_step_in_the_midst_of_a_sentence_is_none() -> None:
    assert read("plain", "ERROR:x:[a/0 - step 23] got exception", "the next step 4 is hard") == []


def test_a_loss_on_its_own_line_belongs_to_the_step_before() -> None:
    one = Reader(
        read_patterns({"step": r"it (?P<step>\d+)", "loss": r"loss (?P<loss>\S+)"}, "patterns")
    )
    assert one.read("loss 0.1") == []  # of no step that is known
    assert one.read("it 3") == [Seen("step", 3)]
    assert one.read("loss 0.1") == [Seen("loss", 3, "0.1")]


def test_one_of_several_expressions_is_enough() -> None:
    patterns = read_patterns({"step": [r"a(?P<step>\d+)", r"b(?P<step>\d+)"]}, "patterns")
    assert Reader(patterns).read("b7") == [Seen("step", 7)]


def test_a_table_changes_what_it_uses() -> None:
    one = reader("maxtext", step=r"^s(?P<step>\d+)")
    assert one.read("s3") == [Seen("step", 3)]
    assert one.read("Saved a checkpoint at step 50.") == [Seen("saved", 50)]


@given(st.text(max_size=200), st.sampled_from(sorted(library())))
def test_any_line_can_be_read(line: str, name: str) -> None:
    for seen in reader(name).read(line):
        assert seen.step is None or seen.step >= 0


@given(st.integers(0, 10**9), st.floats(allow_nan=False, allow_infinity=False, min_value=0))
def test_what_is_printed_is_what_is_read(step: int, loss: float) -> None:
    assert read("plain", f"step {step} loss {loss!r}") == [Seen("step", step, repr(loss))]


def test_no_patterns_see_nothing() -> None:
    assert Reader(Patterns()).read("step 1 loss 2") == []


def test_an_expression_that_takes_for_ever_is_named_and_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expressions, "LONGEST_S", 0.05)
    slow = expressions.compiled(r"(?P<step>\d+)(?:(?:a|a|aa)+)+(?=b)[^c]\1x", "f.toml: step")
    with pytest.raises(UsageError, match=r"f\.toml: step = .* reads a line within 0\.05 s; this"):
        slow.search("1" + "a" * 200 + "bb")


@pytest.mark.parametrize(
    ("step", "line", "said"),
    [
        (
            r"step (?P<step>\S+)",
            "step one",
            "took 'one' out of 'step one': expected a whole number",
        ),
        (r"(?P<step>step)", "step 3", "the group (?P<step>…) took 'step'"),
        (r"(?P<step>\d+)", "1" + "0" * 31, "expected a whole number of at most 12 digits"),
        (
            r"(?P<step>\d+) (?P<loss>\w+)",
            "3 loss",
            "took 'loss' out of '3 loss': expected a number",
        ),
    ],
)
def test_what_a_group_takes_has_to_be_a_number(step: str, line: str, said: str) -> None:
    reader = Reader(read_patterns({"step": step}, "f.toml: patterns"))
    with pytest.raises(UsageError) as raised:
        reader.read(line)
    assert said in str(raised.value) and str(raised.value).startswith("f.toml: patterns.step = ")
