"""What only some runs have: a model's dispatches, a suite's problems, an experiment's arms, a family's buckets, a
comparison's libraries, a retuning's entries. Each kind of run is a list of sections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from autotuner.report.charts import Mark, forest
from autotuner.report.page import Chart, Section
from autotuner.report.reading import Run
from autotuner.report.tables import Field, Table, error, fixed, interval, lines, number, text, us
from autotuner.system.text import count

MOST_SHOWN = 60
"""Problems in a chart: those with most time. The table has all."""
_Row = Mapping[str, Any]
_Rows = Sequence[_Row]


def own_sections(run: Run) -> list[Section]:
    """By the kind of the run; none for a single problem."""
    make: Mapping[str, Callable[[_Row], list[Section]]] = {
        "model": _model,
        "suite": _suite,
        "ab": _experiment,
        "buckets": _family,
        "bench": _libraries,
        "retune": _retuned,
    }
    made = make[run.row.kind](run.document) if run.row.kind in make else []
    return [section for section in made if section.facts or any(table.rows for table in section.tables)]


def _tables(slug: str, title: str, *tables: Table, words: tuple[str, ...] = ()) -> Section:
    return Section(slug, title, words, tables=tables)


def _us(title: str, *path: str) -> Field:
    """A time, at the end of a path of names."""
    return Field(title, lambda row: us(_at(row, path)), "number")


def _at(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        row = (row or {}).get(name)
    return row


def _list(title: str, name: str) -> Field:
    return Field(title, lambda row: lines(row.get(name)), "code")


def _ratio(title: str, name: str) -> Field:
    return Field(title, lambda row: interval(row.get(name)), "number")


_SHARE = Field("share, %", lambda row: fixed(100 * (number(row.get("share")) or 0.0), 1), "number")
_ERROR = Field("error", lambda row: error(row.get("error")), "number")


# --- a model ------------------------------------------------------------------------------------------------------


def _after(row: _Row) -> str:
    before, ratio = number(row.get("us")), number(_at(row, ("speedup", "median")))
    return us(before / ratio if before and ratio and row.get("applied") else before)


_DISPATCHES = (
    Field("dispatch", "name"),
    Field("calls", "calls", "number"),
    _SHARE,
    _us("µs before", "us"),
    _ratio("speedup alone", "speedup"),
    Field("µs after", _after, "number"),
    Field("state", "state", "badge"),
    Field("code", "code"),
    Field("applied", "applied", "number"),
    Field("why", "reason", "long"),
)
_OTHERS = (
    Field("dispatch", "name"),
    Field("calls", "calls", "number"),
    _SHARE,
    Field("kind", "kind"),
    Field("why", "reason", "long"),
)
_ROUTES = (
    Field("route", "name"),
    _us("µs", "us"),
    _ERROR,
    Field("compile, s", lambda row: fixed(row.get("compile_seconds"), 1), "number"),
    Field("state", lambda row: text(row.get("failure") or ("timed" if number(row.get("us")) else "")), "badge"),
    _list("flags", "flags"),
)


_TIMES = (
    Field("kind of dispatch", "kind"),
    Field("default, ms", lambda row: _ms(row, "before"), "number"),
    Field("best, ms", lambda row: _ms(row, "after"), "number"),
)


def _model(document: _Row) -> list[Section]:
    entries, by = document.get("entries") or {}, document.get("ranked_by")
    ranked = f"Ranked by {by} on route {document.get('ranked_route')}. " if by else ""
    found, shipped = entries.get("applied", 0), entries.get("shipped", 0)
    applied = f"{found} of {shipped} shipped entries are found in the compiled model."
    told = f"{ranked}{applied if shipped else 'No entry of a spec is shipped.'}"
    title = "Dispatches that can be tuned, before and after, with what each entry gained"
    kernels: _Rows = (document.get("microkernels") or {}).get("places") or []
    places = [Field(name, name) for name in dict.fromkeys(name for row in kernels for name in row)]
    return [
        _tables(
            "time", "Where the time goes", Table.of("Time of one call", _times(document.get("time") or {}), _TIMES)
        ),
        _tables(
            "dispatches",
            "Dispatches",
            Table.of(title, document.get("dispatches") or [], _DISPATCHES),
            Table.of("Dispatches with nothing to tune", document.get("others") or [], _OTHERS),
            words=(told,),
        ),
        _tables("microkernels", "Microkernels", Table.of("Places", kernels, places)),
        _tables("routes", "Routes", Table.of("Routes of the whole model", document.get("routes") or [], _ROUTES)),
    ]


def _times(time: _Row) -> list[_Row]:
    """A row for each kind of dispatch, with its microseconds of both sides."""
    sides = {side: (time.get(side) or {}).get("parts") or [] for side in ("before", "after")}
    kinds = dict.fromkeys(str(part.get("kind")) for parts in sides.values() for part in parts)
    return [
        {"kind": kind, **{side: sum(_us_of(part, kind) for part in parts) for side, parts in sides.items()}}
        for kind in kinds
    ]


def _us_of(part: _Row, kind: str) -> float:
    return (number(part.get("us")) or 0.0) if str(part.get("kind")) == kind else 0.0


def _ms(row: _Row, side: str) -> str:
    return fixed(row[side] / 1e3, 3)


# --- a suite ------------------------------------------------------------------------------------------------------


_UPLIFT = {
    "kept": "problems that gain",
    "problems": "of problems",
    "weighted": "% of the time saved",
    "coverage": "% of the time tuned",
    "geometric_mean": "speedup, geometric mean",
    "median": "speedup, median",
    "us_saved": "µs saved",
    "us_total": "of µs",
}
_OTHER_MOMENTS = (
    "The times are from the end of a problem's own run, where it has one, and the speedup is from blocks that were "
    "timed side by side there. Shares and what is saved go by a first look at the default of all problems."
)
_PROBLEMS = (
    Field("problem", "problem"),
    Field("calls", "calls", "number"),
    Field("share, %", lambda row: fixed(row.get("share"), 2), "number"),
    Field("default µs", lambda row: us(number(row.get("reference_us")) or number(row.get("default_us"))), "number"),
    _us("tuned µs", "tuned_us"),
    Field("speedup", lambda row: interval({**row, "median": row.get("ratio")}), "number"),
    Field("verdict", "verdict", "badge"),
    Field("carrier", "carrier"),
    Field("run", "run", link="#run-"),
    Field("why", "reason", "long"),
)
_GROUPS = (
    Field("problems", lambda row: ", ".join(map(str, row.get("problems") or [])), "long"),
    Field("ms saved", lambda row: fixed((number(row.get("us_saved")) or 0.0) / 1e3, 3), "number"),
    Field("carrier", "carrier"),
    _list("flags", "flags"),
    Field("flagfile", "flagfile", "code"),
)


def _suite(document: _Row) -> list[Section]:
    rows: _Rows = document.get("problems") or []
    uplift = document.get("uplift") or {}
    tuned = [row for row in rows if number(row.get("ratio"))]
    return [
        Section(
            "problems",
            "Problems",
            (_OTHER_MOMENTS,) if tuned else (),
            facts=tuple((words, text(uplift[name])) for name, words in _UPLIFT.items() if uplift.get(name) is not None),
            charts=_uplifts(tuned[:MOST_SHOWN][::-1]),
            tables=(
                Table.of("Problems of the suite", rows, _PROBLEMS),
                Table.of("What compiles together", document.get("groups") or [], _GROUPS),
            ),
        )
    ]


def _uplifts(rows: _Rows) -> tuple[Chart, ...]:
    """The speedup of each problem that came to one, the one with most time first."""
    marks = [
        Mark(
            text(row.get("problem")),
            float(row["ratio"]),
            number(row.get("low")),
            number(row.get("high")),
            "@good" if row.get("kept") else "@muted",
        )
        for row in rows
    ]
    return (forest("Speedup of each problem, with its interval", marks),) if marks else ()


# --- an experiment, a family, a retuning --------------------------------------------------------------------------


_ARMS = (
    Field("arm", "name"),
    Field("kind", "kind"),
    _us("µs", "us"),
    _ERROR,
    Field("applied", "applied", "number"),
    _list("flags", "flags"),
    Field("spec", "spec", "code"),
)
_BUCKETS = (
    Field("bucket", "bucket"),
    Field("from M", "low", "number"),
    Field("to M", "high", "number"),
    Field("tuned at", "tuned_at", "number"),
    Field("uses", "uses"),
    Field("verdict", "verdict", "badge"),
    _us("default µs", "baseline", "us"),
    _us("best µs", "best", "us"),
    _ratio("speedup", "speedup"),
    Field("run", "run", link="#run-"),
    Field("why", "why", "long"),
)


def _entry(one: _Row) -> str:
    """By its name or its file's, with the problem where that does not tell it."""
    name, problem = text(one.get("entry")) or text(one.get("spec")).rpartition("/")[2], text(one.get("problem"))
    return name if problem in name else f"{name}: {problem}"


def _before(one: _Row) -> str:
    """What was raced took so long before; earlier documents have the entry's own time alone."""
    return us(one["before_us"] if "before_us" in one else _at(one, ("old", "us")))


_ENTRIES = (
    Field("entry", _entry),
    Field("state", "state", "badge"),
    Field("before µs", _before, "number"),
    _us("now µs", "us"),
    _us("default now µs", "baseline_us"),
    _ratio("speedup", "speedup"),
    Field("why", "reason", "long"),
    Field("race", "run", link="#run-"),
)


def _experiment(document: _Row) -> list[Section]:
    arms: _Rows = document.get("arms") or []
    difference = number(document.get("difference"))
    words = [] if difference is None else [f"Relative error between what both arms compute: {difference:.1e}."]
    words += ["Both arms have the same machine code."] if document.get("same_code") else []
    blocks = tuple((f"Repeat {text(arm.get('name'))}", lines(arm.get("command"))) for arm in arms)
    table = Table.of("Arms of the experiment", arms, _ARMS)
    return [Section("arms", "Arms", tuple(words), tables=(table,), blocks=blocks)]


def _family(document: _Row) -> list[Section]:
    return [_tables("buckets", "Buckets", Table.of("Buckets of the family", document.get("buckets") or [], _BUCKETS))]


def _retuned(document: _Row) -> list[Section]:
    """What became of each entry, and why."""
    entries = [one for one in document.get("entries") or [] if isinstance(one, Mapping)]
    return [_tables("entries", "Entries", Table.of("What became of each entry", entries, _ENTRIES))]


# --- other libraries ----------------------------------------------------------------------------------------------


def _how(row: _Row) -> str:
    return f"{row['failure']}: {text(row.get('reason'))}" if row.get("failure") else text(row.get("how"))


def _rate(row: _Row) -> str:
    """GFLOP/s; of a small one the digits that it has."""
    value = number(row.get("gflops"))
    return "" if value is None else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


_BACKENDS = (
    Field("problem", "problem"),
    Field("backend", "backend"),
    _us("µs", "us"),
    Field("GFLOP/s", _rate, "number"),
    _ratio("times as fast as iree", "over_iree"),
    _us("cold µs", "cold_us"),
    _ERROR,
    Field("version", "version"),
    Field("how", _how, "long"),
)


def _libraries(document: _Row) -> list[Section]:
    """Every backend of every problem."""
    table = Table.of("Backends, timed in turns", _backends(document), _BACKENDS)
    return [_tables("libraries", "Libraries", table)]


def _backends(document: _Row) -> Iterator[_Row]:
    for problem in document.get("problems") or []:
        for row in problem.get("backends") or []:
            yield {**row, "problem": text(problem.get("name"))}


def headline(document: _Row) -> str:
    """How many times as fast as each of the others IREE is."""
    several = len(document.get("problems") or []) > 1
    told, by = [], ""
    for name, entry in (document.get("summary") or {}).items():
        if mean := number(entry.get("geometric_mean")):
            of = f" (of {count(int(number(entry.get('problems')) or 0), 'problem')})" if several else ""
            told.append(f"{mean:.3f} times as fast as {text(name)}{of}")
            by = by or text(entry.get("by"))
    return f"{by} is {', '.join(told)}{', in the geometric mean' if several else ''}" if told else ""
