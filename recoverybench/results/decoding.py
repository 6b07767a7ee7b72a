"""The quick way to read a record: types checked while the JSON is parsed, spans left for later.

`msgspec` parses a line and checks it against the fields' types in one pass, ten times as fast as
parsing and checking in Python. Spans are nine tenths of a line, and only a waterfall of one trial
asks for them, so they stay text until they are looked at. Whatever this way does not take (a
version before the last one, a field that is wrong) is read in the slow way, which says what is the
matter.
"""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, overload

from recoverybench.cells import Cell
from recoverybench.errors import UsageError
from recoverybench.records import Span, TrialRecord, Verification
from recoverybench.results.migrations import v5
from recoverybench.results.shapes import LONGEST_S, check_shape, in_measure, is_time, least_s
from recoverybench.vocabulary import SCHEMA_VERSION

if TYPE_CHECKING:
    from msgspec import Raw


class KeptSpans(Sequence[Span]):
    """The spans of a record as the text that they were read from, until they are looked at.

    Raises:
        UsageError: at the first look: they are not spans; one line names file, line and field.
    """

    __slots__ = ("_spans", "_text", "_where")

    def __init__(self, text: Raw, where: str) -> None:
        """Takes over the text, in which nothing may change."""
        self._text: Raw | None = text
        self._where = where
        self._spans: tuple[Span, ...] | None = None

    def _read(self) -> tuple[Span, ...]:
        if self._spans is None:
            assert self._text is not None
            found = quick().spans(self._text)
            self._spans = _slow_spans(bytes(self._text), self._where) if found is None else found
            self._text = None
        return self._spans

    @overload
    def __getitem__(self, index: int) -> Span: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Span, ...]: ...
    def __getitem__(self, index: int | slice) -> Span | tuple[Span, ...]:
        return self._read()[index]

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[Span]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._read() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


@dataclasses.dataclass(frozen=True, slots=True)
class _Spans:
    spans: tuple[Span, ...]


def _slow_spans(text: bytes, where: str) -> tuple[Span, ...]:
    try:
        data = {"spans": read_json(text)}
        check_shape(data, _Spans)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not a trial record: {error}") from None
    return tuple(Span(**span) for span in data["spans"])


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """What decodes lines of one version of ``trials.jsonl``.

    Attributes:
        decode: a line -> its fields by attribute. names: of those fields.
        missing: fields that this version has not, with values that say nothing.
    """

    decode: Callable[[bytes], Any]
    names: tuple[str, ...]
    missing: dict[str, Any]

    def values(self, line: bytes) -> dict[str, Any]:
        """Name -> value, of every field of a record; one of `Quick.errors` where it has none."""
        found = self.decode(line)
        return {name: getattr(found, name) for name in self.names} | self.missing


@dataclasses.dataclass(frozen=True, slots=True)
class Quick:
    """What decodes lines of ``trials.jsonl``, and the spans in them.

    Attributes:
        versions: the present one first. decode_spans: text -> structs with the fields of a span.
        errors: what a decoder raises where it does not take a text.
    """

    versions: tuple[Version, ...]
    decode_spans: Callable[[Raw], list[Any]]
    errors: tuple[type[Exception], ...]

    def record(self, line: bytes, where: str) -> TrialRecord | None:
        """The record in a line, of which only the types are checked; None: it is not taken."""
        values = self._values(line)
        if values is None or not _in_measure(values):
            return None
        values["spans"] = KeptSpans(values["spans"], where)
        values["cell"] = _cell(_factors_of(values["cell"]))
        if values["verify"] is not None:
            values["verify"] = Verification(*_compared_of(values["verify"]))
        return TrialRecord(**values)

    def _values(self, line: bytes) -> dict[str, Any] | None:
        for version in self.versions:  # another version ends at the first field, its number
            try:
                return version.values(line)
            except self.errors:
                continue
        return None

    def spans(self, text: Raw) -> tuple[Span, ...] | None:
        """The spans in a text; None: it is not taken."""
        try:
            return tuple(Span(*_span_of(found)) for found in self.decode_spans(text))
        except self.errors:
            return None


_NAMES = tuple(field.name for field in dataclasses.fields(TrialRecord))
_span_of = attrgetter(*(field.name for field in dataclasses.fields(Span)))
_factors_of = attrgetter(*(field.name for field in dataclasses.fields(Cell)))
_compared_of = attrgetter(*(field.name for field in dataclasses.fields(Verification)))
_STRICT = (Cell, Verification, Span)
"""The first two have defaults, which a file is not to make use of, and of spans there are many. The
other parts of a record are decoded as they are, and in these alone a field that is foreign to the
version is not noticed.
"""


def _in_measure(values: dict[str, Any]) -> bool:
    """Whether the times in parts that are decoded as they are can be those of anything."""
    return all(
        in_measure(one.after_s) and in_measure(one.bound_s, "bound_s")
        for one in values["detection_evidence"]
    ) and all(
        in_measure(time)
        for one in values["transitions"]
        for time in (one.paused_s or 0.0, *one.phases.values())
    )


@lru_cache(maxsize=1024)
def _cell(factors: tuple[Any, ...]) -> Cell:
    """One object for all trials of a cell."""
    return Cell(*factors)


@cache
def quick() -> Quick:
    """The decoders of the present version and the one before; made once, when a run is read."""
    import msgspec

    whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    plain: dict[Any, Any] = {int: whole}

    def of(hint: Any, name: str = "") -> Any:
        """The hint, with what is `_STRICT` as structs, which allow no other field and lack none.

        Args:
            hint: a type. name: of the field that it is the type of.
        """
        if hint is float and is_time(name):
            return Annotated[float, msgspec.Meta(ge=least_s(name), le=LONGEST_S)]
        if hint in plain:
            return plain[hint]
        if hint in _STRICT:
            hints = typing.get_type_hints(hint)
            fields = [(f.name, of(hints[f.name], f.name)) for f in dataclasses.fields(hint)]
            plain[hint] = msgspec.defstruct(
                hint.__name__, fields, forbid_unknown_fields=True, gc=False
            )
            return plain[hint]
        arguments = typing.get_args(hint)
        if not arguments or hint is Any:
            return hint
        inner = tuple(a if a is Ellipsis else of(a, name) for a in arguments)
        origin = typing.get_origin(hint)
        return typing.Union[inner] if origin not in (tuple, list, dict) else origin[inner]  # noqa: UP007

    def version(number: int, missing: dict[str, Any]) -> Version:
        names = tuple(name for name in _NAMES if name not in missing)
        fields: list[tuple[str, Any]] = [("schema", typing.Literal[number])]
        fields += [(n, msgspec.Raw if n == "spans" else of(hints[n], n)) for n in names]
        line = msgspec.defstruct("Line", fields, forbid_unknown_fields=True, gc=False)
        return Version(msgspec.json.Decoder(line).decode, names, missing)

    hints = typing.get_type_hints(TrialRecord)
    return Quick(
        (version(SCHEMA_VERSION, {}), version(5, v5.TRIAL)),
        msgspec.json.Decoder(list[of(Span)]).decode,  # type: ignore[misc]
        (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError),
    )


def read_json(text: bytes) -> Any:
    """JSON whose numbers can be counted with: no NaN, no infinity, none beyond a float."""
    return json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)


def _refuse(number: str) -> float:
    raise ValueError(f"{number[:40]} is no number that can be counted with")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse(text)


def _whole(text: str) -> int | float:
    """Tables hold whole numbers of 64 bits."""
    number = int(text) if len(text) < 21 else None
    return number if number is not None and -(2**63) <= number < 2**63 else _refuse(text)
