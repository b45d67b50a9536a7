"""What only some runs have: a model's dispatches, a suite's problems, an experiment's arms, a family's buckets, a
retuning's entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autotuner.report.charts import Mark, bars, brief, forest
from autotuner.report.page import Chart, Section
from autotuner.report.reading import Run
from autotuner.report.tables import Column, Field, Table, error, fixed, interval, lines, number, text, us

_COLOURS = ("@c1", "@c2", "@c3", "@c4", "@c5", "@c6", "@c7", "@c8")
MOST_SHOWN = 60
"""Problems in the chart of a suite: those with most time. The table has all."""
_Row = Mapping[str, Any]
_Rows = Sequence[_Row]


def own_sections(run: Run) -> list[Section]:
    """By the kind of the run; none for a single problem."""
    make: Mapping[str, Callable[[Run], list[Section]]] = {
        "model": _model,
        "suite": _suite,
        "ab": _experiment,
        "buckets": _family,
        "retune": _retuned,
    }
    return make[run.row.kind](run) if run.row.kind in make and run.document else []


def _us(title: str, *path: str) -> Field:
    """A time, at the end of a path of names."""
    return Field(title, lambda row: us(_at(row, path)), "number")


def _at(row: Any, path: Sequence[str]) -> Any:
    for name in path:
        row = (row or {}).get(name)
    return row


def _list(title: str, name: str) -> Field:
    return Field(title, lambda row: lines(row.get(name)), "code")


def _share(row: _Row) -> str:
    return fixed(100 * (number(row.get("share")) or 0.0), 1)


_SPEEDUP = Field("speedup", lambda row: interval(row.get("speedup")), "number")
_ERROR = Field("error", lambda row: error(row.get("error")), "number")


# --- a model ------------------------------------------------------------------------------------------------------


def _model(run: Run) -> list[Section]:
    document = run.document
    time = document.get("time") or {}
    dispatches = Table.of(
        "Dispatches that can be tuned, before and after, with what each entry gained",
        document.get("dispatches") or [],
        _DISPATCHES,
    )
    others = Table.of("Dispatches with nothing to tune", document.get("others") or [], _OTHERS)
    found = [Section("dispatches", "Dispatches", _ranked(document), tables=(dispatches, others))]
    if time:
        whole = Section("time", "Where the time goes", _how(time), wide=_breakdown(time), tables=(_kinds(time),))
        found.insert(0, whole)
    if kernels := (document.get("microkernels") or {}).get("places") or []:
        names = list(dict.fromkeys(name for row in kernels for name in row))
        table = Table.of("Microkernels", kernels, [Field(name, name) for name in names])
        found.append(Section("microkernels", "Microkernels", tables=(table,)))
    routes: _Rows = document.get("routes") or []
    words = () if routes else ("No route was tried as a whole.",)
    table = Table.of("Routes of the whole model", routes, _ROUTES)
    return [*found, Section("routes", "Routes", words, tables=(table,))]


def _ranked(document: _Row) -> tuple[str, ...]:
    entries = document.get("entries") or {}
    by, route = document.get("ranked_by"), document.get("ranked_route")
    ranked = f"Ranked by {by} on route {route}. " if by else ""
    found, shipped = entries.get("applied", 0), entries.get("shipped", 0)
    applied = f"{found} of {shipped} shipped entries are found in the compiled model."
    return (f"{ranked}{applied if shipped else 'No entry of a spec is shipped.'}",)


def _after(row: _Row) -> str:
    before, ratio = number(row.get("us")), number(_at(row, ("speedup", "median")))
    return us(before / ratio if before and ratio and row.get("applied") else before)


_DISPATCHES = (
    Field("dispatch", "name"),
    Field("calls", "calls", "number"),
    Field("share, %", _share, "number"),
    _us("µs before", "us"),
    Field("speedup alone", lambda row: interval(row.get("speedup")), "number"),
    Field("µs after", _after, "number"),
    Field("state", "state", "badge"),
    Field("code", "code"),
    Field("applied", "applied", "number"),
    Field("why", "reason", "long"),
)
_OTHERS = (
    Field("dispatch", "name"),
    Field("calls", "calls", "number"),
    Field("share, %", _share, "number"),
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


def _how(time: _Row) -> tuple[str, ...]:
    sides = _sides(time)
    said = dict.fromkeys(str(side["how"]) for side in sides.values() if side.get("how"))
    missing = [f"Of the {name} no such times were taken." for name in ("default", "best") if name not in sides]
    return (" ".join([f"By {'; '.join(said)}.", *missing]),) if said else ()


def _sides(time: _Row) -> dict[str, _Row]:
    named = (("default", time.get("before")), ("best", time.get("after")))
    return {name: side for name, side in named if side}


def _kind_us(side: _Row) -> dict[str, float]:
    return {str(part.get("kind")): number(part.get("us")) or 0.0 for part in side.get("parts") or []}


def _breakdown(time: _Row) -> tuple[Chart, ...]:
    sides = [(name, _kind_us(side)) for name, side in _sides(time).items()][::-1]
    kinds = dict.fromkeys(kind for _, parts in reversed(sides) for kind in parts)
    data = [
        bars(
            kind,
            [parts.get(kind, 0.0) / 1e3 for _, parts in sides],
            [name for name, _ in sides],
            colour=_COLOURS[i % len(_COLOURS)],
            unit="ms",
        )
        for i, kind in enumerate(kinds)
    ]
    layout = {"barmode": "stack", "xaxis": {"title": {"text": "ms"}}, "yaxis": {"type": "category"}, "bargap": 0.3}
    chart = Chart("Time of one call by kind of dispatch", {"data": data, "layout": layout}, height=240)
    return (chart,) if data else ()


def _kinds(time: _Row) -> Table:
    sides = _sides(time)
    columns = [Column("kind")]
    columns += [Column(f"{name}, {unit}", "number") for name in sides for unit in ("ms", "%")]
    tables = [(_kind_us(side), number(side.get("us")) or 0.0) for side in sides.values()]
    rows = []
    for kind in dict.fromkeys(kind for parts, _ in tables for kind in parts):
        cells = [kind]
        for parts, whole in tables:
            time_us = parts.get(kind, 0.0)
            cells += [f"{time_us / 1e3:.3f}", fixed(100 * time_us / whole, 1) if whole else ""]
        rows.append(cells)
    return Table(f"Time by kind of dispatch{', before and after' if len(sides) > 1 else ''}", columns, rows)


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


def _suite(run: Run) -> list[Section]:
    document = run.document
    rows: _Rows = document.get("problems") or []
    uplift = document.get("uplift") or {}
    facts = [(words, text(uplift[name])) for name, words in _UPLIFT.items() if uplift.get(name) is not None]
    groups = Table.of("What compiles together", document.get("groups") or [], _GROUPS)
    return [
        Section(
            "problems",
            "Problems",
            (_OTHER_MOMENTS,) if any(row.get("ratio") for row in rows) else (),
            facts=tuple(facts),
            wide=_uplifts(rows),
            tables=(Table.of("Problems of the suite", rows, _PROBLEMS), groups),
        )
    ]


def _uplifts(rows: _Rows) -> tuple[Chart, ...]:
    """The speedup of each problem that came to one, the one with most time first."""
    told = [row for row in rows if number(row.get("ratio"))][:MOST_SHOWN][::-1]
    marks = [
        Mark(
            brief(text(row.get("problem"))),
            float(row["ratio"]),
            number(row.get("low")),
            number(row.get("high")),
            "@good" if row.get("kept") else "@muted",
        )
        for row in told
    ]
    title = "Speedup of each problem, with its interval"
    return (forest(title, {"": marks}, axis="times as fast as the default"),) if marks else ()


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


def _experiment(run: Run) -> list[Section]:
    arms: _Rows = run.document.get("arms") or []
    difference = number(run.document.get("difference"))
    words = [] if arms else ["The arms were not compared."]
    words += [] if difference is None else [f"Relative error between what both arms compute: {difference:.1e}."]
    words += ["Both arms have the same machine code."] if run.document.get("same_code") else []
    blocks = [(f"Repeat {text(arm.get('name'))}", lines(arm.get("command"))) for arm in arms]
    table = Table.of("Arms of the experiment", arms, _ARMS)
    return [Section("arms", "Arms", tuple(words), tables=(table,), blocks=tuple(blocks))]


_BUCKETS = (
    Field("bucket", "bucket"),
    Field("from M", "low", "number"),
    Field("to M", "high", "number"),
    Field("tuned at", "tuned_at", "number"),
    Field("uses", "uses"),
    Field("verdict", "verdict", "badge"),
    _us("default µs", "baseline", "us"),
    _us("best µs", "best", "us"),
    _SPEEDUP,
    Field("run", "run", link="#run-"),
    Field("why", "why", "long"),
)


def _family(run: Run) -> list[Section]:
    table = Table.of("Buckets of the family", run.document.get("buckets") or [], _BUCKETS)
    return [Section("buckets", "Buckets", tables=(table,))]


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
    _SPEEDUP,
    Field("why", "reason", "long"),
    Field("race", "run", link="#run-"),
)


def _retuned(run: Run) -> list[Section]:
    """What became of each entry, and why."""
    entries = [one for one in run.document.get("entries") or [] if isinstance(one, Mapping)]
    first = number(run.document.get("first_seconds"))
    words = (f"The first tuning of all this took {first:.0f} s.",) if first else ()
    return [Section("entries", "Entries", words, tables=(Table.of("What became of each entry", entries, _ENTRIES),))]
