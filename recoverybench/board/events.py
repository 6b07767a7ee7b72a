# mypy: disable-error-code="import-untyped"
"""A board as TensorBoard's own events: protocol buffers, without TensorFlow and without a file.

The layout of HParams is that of `tensorboard/plugins/hparams/summary.py`: the experiment in the
topmost run, and in each session's run its start, its end and the scalars that are its metrics.
That module itself needs TensorFlow; the messages do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from recoverybench.board.model import FLAG, NUMBER, TEXT, Board, Parameter, Point, Session
from recoverybench.board.scalars import MEDIAN

VERSION: Final = "brain.Event:2"
"""What the first event of a file says of its format."""


def event_streams(board: Board) -> Iterator[tuple[str, Iterator[Any]]]:
    """A directory (``""``: the topmost one) and its ``event_pb2.Event`` messages, for each.

    Imports tensorboard.
    """
    yield "", _experiment_events(board)
    for session in board.sessions:
        yield session.directory, _session_events(session)


def _experiment_events(board: Board) -> Iterator[Any]:
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    yield _version(board.created_s)
    experiment = api_pb2.Experiment(
        time_created_secs=board.created_s,
        hparam_infos=[_parameter(parameter) for parameter in board.parameters],
        metric_infos=[_metric(tag) for tag in board.metrics],
    )
    data = plugin_data_pb2.HParamsPluginData(experiment=experiment)
    yield _event(board.created_s, 0, _hparams(metadata.EXPERIMENT_TAG, data))


def _session_events(session: Session) -> Iterator[Any]:
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    yield _version(session.started_s)
    start = plugin_data_pb2.SessionStartInfo(
        group_name=session.name, start_time_secs=session.started_s
    )
    for name, value in session.hparams.items():
        if isinstance(value, bool):  # before numbers, which it is too
            start.hparams[name].bool_value = value
        elif isinstance(value, str):
            start.hparams[name].string_value = value
        else:
            start.hparams[name].number_value = value
    data = plugin_data_pb2.HParamsPluginData(session_start_info=start)
    yield _event(session.started_s, 0, _hparams(metadata.SESSION_START_INFO_TAG, data))
    # Before the trials: TensorBoard takes a step back for a restart, which drops what was after it.
    yield _scalars(session.summary)
    for point in session.trials:
        yield _scalars(point)
    end = plugin_data_pb2.SessionEndInfo(
        status=api_pb2.Status.Value(f"STATUS_{session.status.upper()}"),
        end_time_secs=session.ended_s,
    )
    data = plugin_data_pb2.HParamsPluginData(session_end_info=end)
    yield _event(session.ended_s, 0, _hparams(metadata.SESSION_END_INFO_TAG, data))


def _parameter(parameter: Parameter) -> Any:
    from tensorboard.plugins.hparams import api_pb2

    kinds = {
        TEXT: api_pb2.DATA_TYPE_STRING,
        NUMBER: api_pb2.DATA_TYPE_FLOAT64,
        FLAG: api_pb2.DATA_TYPE_BOOL,
    }
    info = api_pb2.HParamInfo(name=parameter.name, type=kinds[parameter.kind], differs=True)
    info.domain_discrete.extend(list(parameter.values))
    return info


def _metric(tag: str) -> Any:
    from tensorboard.plugins.hparams import api_pb2

    median = tag.startswith(MEDIAN)
    shown = f"{tag.removeprefix(MEDIAN)}, median" if median else tag.partition("/")[2]
    return api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag), display_name=shown)


def _hparams(tag: str, data: Any) -> list[Any]:
    from tensorboard.compat.proto import summary_pb2
    from tensorboard.plugins.hparams import metadata

    value = summary_pb2.Summary.Value(
        tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR
    )
    return [value]


def _scalars(point: Point) -> Any:
    """One event for all of a step.

    As `simple_value`, in single precision: TensorBoard's fast loader shows no doubles at all.
    """
    from tensorboard.compat.proto import summary_pb2

    values = [
        summary_pb2.Summary.Value(tag=tag, simple_value=value)
        for tag, value in point.values.items()
    ]
    return _event(point.wall_time_s, point.step, values)


def _event(wall_time_s: float, step: int, values: list[Any]) -> Any:
    from tensorboard.compat.proto import event_pb2, summary_pb2

    summary = summary_pb2.Summary(value=values)
    return event_pb2.Event(wall_time=wall_time_s, step=step, summary=summary)


def _version(wall_time_s: float) -> Any:
    from tensorboard.compat.proto import event_pb2

    return event_pb2.Event(wall_time=wall_time_s, file_version=VERSION)
