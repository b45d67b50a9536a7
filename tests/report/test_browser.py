"""The pages in a real browser: complete, quiet, alone, usable by keyboard, in light and dark, wide and narrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotuner.report.nightly import look_at, page
from autotuner.report.report import report
from autotuner.store.store import Store
from tests.report import browser as browsers
from tests.report.browser import Browser
from tests.report.nightly.test_night import CHIP, a_plan, entries
from tests.support.stored_runs import HOSTILE, a_search

REQUIRED = "AUTOTUNE_TEST_CHROMIUM"
"""Set in CI: a browser that is missing is a failure there."""
SECTIONS = (*("search", "finalists", "failures", "environment", "candidates"),)
MARKS = ".plot a, .track b"
WIDE = "document.documentElement.scrollWidth"
FOCUSABLE = "a[href]:not([tabindex='-1']), button:not([disabled]), input, summary, [tabindex='0']"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if browsers.PROGRAM is None:
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, and there is no chromium")
        pytest.skip("there is no chromium here: apt-get install chromium")
    with browsers.browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@dataclass(frozen=True)
class Pages:
    """One page of each kind of run, in files."""

    gemm: str
    model: str
    suite: str

    @property
    def all(self) -> tuple[str, ...]:
        return (self.gemm, self.model, self.suite)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    folder = tmp_path_factory.mktemp("pages")
    dispatch = {
        "name": HOSTILE,
        "calls": 2,
        "share": 0.4,
        "us": 100.0,
        "state": "tuned",
        "applied": 2,
        "reason": HOSTILE,
    }
    parts = [{"kind": "gemm", "us": 5e3}, {"kind": HOSTILE, "us": 4e3}]
    time = {side: {"us": 9e3, "how": "statistics", "parts": parts} for side in ("before", "after")}
    model: dict[str, object] = {"dispatches": [dispatch], "time": time, "entries": {}}
    model["routes"] = [{"name": HOSTILE, "us": 1.0, "flags": ["--iree-preprocessing-pass-pipeline=" + 40 * "pass,"]}]
    model["others"] = [{"name": 200 * "x", "calls": 1, "share": 0.1, "kind": "packing"}]
    model["notes"] = ["configurations/" + 30 * "configured_" + ".mlir"]
    with Store.open(None, workspace=folder) as store:
        runs = [
            a_search(store, name=HOSTILE),
            a_search(store, kind="model", more=model),
            a_search(store, kind="suite", more={"problems": [{"problem": HOSTILE, "ratio": 1.5}]}),
        ]
        a_search(store, parent=runs[2])
        files = []
        for run in runs:
            file = folder / f"{run}.html"
            file.write_text(report(store, [run]))
            files.append(file.as_uri())
    return Pages(*files)


def drawn(page: Browser) -> None:
    """Every mark of every chart stands within it."""
    page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    marks = page.run(f"[...document.querySelectorAll('{MARKS}')].map((m) => m.getBoundingClientRect().toJSON())")
    inside = page.run(
        f"[...document.querySelectorAll('{MARKS}')].map((m) => m.parentElement.getBoundingClientRect().toJSON())"
    )
    for mark, box in zip(marks, inside, strict=True):
        middle = (mark["left"] + mark["right"]) / 2
        assert box["left"] - 1 <= middle <= box["right"] + 1


def test_every_kind_of_page_is_complete_quiet_and_alone(chromium: Browser, pages: Pages) -> None:
    chromium.look(width=1280, scheme="dark")
    for address in pages.all:
        chromium.visit(address)
        drawn(chromium)
        assert chromium.run(WIDE) <= 1280
        heads = "[...document.querySelectorAll('section :is(h2, h3)[id]')]"
        found = chromium.run(f"{heads}.map((h) => h.id.split('-').at(-1))")
        assert [slug for slug in SECTIONS if slug not in found] == []
        assert chromium.run("document.querySelectorAll('.chart').length") >= 2
        assert chromium.complaints() == []
        assert chromium.requests() == [address]
        # What strangers wrote is shown and does nothing.
        assert HOSTILE in chromium.run("document.body.textContent")
        assert chromium.run("document.title") != "x"
        assert chromium.run("document.querySelectorAll('img, iframe, object').length") == 0


def test_the_page_of_a_night_is_complete_quiet_and_alone(chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "night.html"
    file.write_text(page(look_at(a_plan(tmp_path), entries(count=12, step_at=10))))
    chromium.visit(file.as_uri())
    drawn(chromium)
    sections = [f"night-{name}" for name in ("parts", "compared", "trends", "environment")]
    assert chromium.run("[...document.querySelectorAll('section h2[id]')].map((h) => h.id)") == sections
    assert chromium.run("document.querySelectorAll('.chart .plot').length") > 0
    assert chromium.complaints() == []
    assert chromium.requests() == [file.as_uri()]
    assert chromium.run("document.querySelectorAll('img').length") == 0
    assert CHIP in file.read_text().replace("&lt;", "<").replace("&gt;", ">")


def test_a_script_that_got_into_the_page_would_not_run(chromium: Browser, pages: Pages) -> None:
    chromium.visit(pages.gemm)
    chromium.run(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))"
    )
    assert chromium.run("window.ran === undefined")
    assert chromium.run("fetch('https://example.com').then(() => 'left', () => 'refused')") == "refused"


def test_the_keyboard_reaches_everything(chromium: Browser, pages: Pages) -> None:
    chromium.look(width=1280)
    chromium.visit(pages.gemm)
    wanted = chromium.run(
        f"""window.left = new Set([...document.querySelectorAll("{FOCUSABLE}")].filter((e) => e.checkVisibility()));
        document.addEventListener('focusin', (event) => window.left.delete(event.target)); window.left.size"""
    )
    assert wanted > 20
    for _ in range(wanted + 2):
        chromium.press("Tab")
    assert chromium.run("[...window.left].map((e) => e.outerHTML.slice(0, 120))") == []


def test_many_candidates_are_shown_by_pages_and_a_point_leads_to_its_own_on_whichever(
    chromium: Browser, tmp_path: Path
) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        (tmp_path / "page.html").write_text(report(store, [a_search(store, candidates=900)]))
    chromium.look(width=1280)
    chromium.visit((tmp_path / "page.html").as_uri())
    assert "1 to 50 of 902" in chromium.run("[...document.querySelectorAll('.controls')].at(-1).textContent")
    assert chromium.run("document.querySelectorAll('*').length") < 8000
    height = "parseFloat(point.style.bottom)"
    points = f"[...document.querySelectorAll('.plot a')].map((point) => [{height}, point])"
    slowest = f"{points}.sort((one, other) => one[0] - other[0]).at(-1)[1]"
    chromium.run(f"{slowest}.click()")
    chromium.wait("document.querySelector('tr.meant') !== null")
    meant = "document.querySelector('tr.meant')"
    assert chromium.run(f"{meant}.id === location.hash.slice(1)")
    assert chromium.run(
        f"{meant}.getBoundingClientRect().top >= 0 && {meant}.getBoundingClientRect().bottom <= innerHeight"
    )


def test_a_table_is_sorted_and_filtered_by_keyboard(chromium: Browser, pages: Pages) -> None:
    chromium.visit(pages.gemm)
    table = "[...document.querySelectorAll('[data-table]')].at(-1)"
    cells = f"[...{table}.querySelectorAll('tbody tr')].map((row) => row.cells[0].textContent)"
    chromium.run(f"{table}.querySelector('th button').focus()")
    chromium.press("Enter")
    assert chromium.run(cells)[:3] == ["0", "1", "2"]
    chromium.press("Enter")
    assert chromium.run(cells)[:3] == ["41", "40", "39"]
    chromium.run(f"{table}.querySelector('input').focus()")
    chromium.call("Input.insertText", text="compile-error")
    assert chromium.run(cells) == ["39", "29", "19", "9"]


def test_a_command_is_copied_as_it_stands(chromium: Browser, pages: Pages) -> None:
    chromium.visit(pages.gemm)
    chromium.run("document.addEventListener('copy', () => { window.copied = String(getSelection()); })")
    chromium.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    chromium.run("document.querySelector('[data-copy]').focus()")
    chromium.press("Enter")
    chromium.wait("window.copied === 'autotune gemm --shape 256x256x512'")


def test_nothing_sticks_out_of_a_small_window_and_paper_is_light_or_dark(chromium: Browser, pages: Pages) -> None:
    """A wide one is looked at where pages are complete, in the dark."""
    papers = set()
    chromium.look(width=390)
    for address in (pages.model, pages.suite):  # which have all that a page of one kernel has
        chromium.visit(address)
        drawn(chromium)
        assert chromium.run(WIDE) <= 390
        cells = chromium.run("[...document.querySelectorAll('td.code')].map((c) => c.getBoundingClientRect().height)")
        assert max(cells, default=0) < 300, "no column is a letter wide"
        names = chromium.run("[...document.querySelectorAll('td.text')].map((c) => c.getBoundingClientRect().width)")
        assert max(names) < 460, "a long name leaves room for what else is told"
    for scheme in ("light", "dark"):
        chromium.look(width=390, scheme=scheme)
        papers.add(chromium.run("getComputedStyle(document.body).backgroundColor"))
    assert len(papers) == 2


def test_paper_is_light_whatever_the_screen_is(chromium: Browser, pages: Pages) -> None:
    chromium.look(width=1280, scheme="dark")
    chromium.visit(pages.model)
    ink = "getComputedStyle(document.body).color"
    on_screen = chromium.run(ink)
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    assert chromium.run(ink) != on_screen
    assert chromium.run("[...document.querySelectorAll('details')].every((d) => d.open)")
    widths = "[...document.querySelectorAll('.chart')].map((s) => s.getBoundingClientRect().width)"
    assert max(chromium.run(widths)) <= 690  # a sheet of A4 within its margins
    chromium.call("Emulation.setEmulatedMedia", media="print")
    tables = chromium.run("[...document.querySelectorAll('table')].map((t) => t.getBoundingClientRect().width)")
    rows = chromium.run("[...document.querySelectorAll('tbody tr')].map((r) => r.getBoundingClientRect().height)")
    assert max(tables) <= 690, "no table is cut"
    assert max(rows) < 400, "no column is a letter wide"
    chromium.look(width=1280, scheme="dark")
    chromium.run("dispatchEvent(new Event('afterprint'))")
    assert chromium.run(ink) == on_screen
