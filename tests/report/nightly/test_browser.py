"""The pages of `compare` and `nightly` in a browser: complete, quiet, and alone."""

from __future__ import annotations

from pathlib import Path

from autotuner.report.compare import page as compare_page
from autotuner.report.nightly import page as nightly_page
from autotuner.report.nightly.night import look_at
from tests.report.nightly.test_night import CHIP, a_plan, entries
from tests.report.test_browser import chromium, drawn
from tests.support.browser import Browser

__all__ = ["chromium"]


def test_both_pages_are_complete_quiet_and_alone(chromium: Browser, tmp_path: Path) -> None:
    night = look_at(a_plan(tmp_path), entries(count=40, step_at=30))
    assert night.comparison is not None
    pages = {
        "nightly": (
            nightly_page.page(night),
            ["summary", "parts", "changes", "trends", "versions", "golden", "environment"],
        ),
        "compare": (compare_page.page(night.comparison), ["summary", "kernels", "environment"]),
    }
    for name, (text, sections) in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(text)
        chromium.visit(file.as_uri())
        drawn(chromium)
        assert chromium.run("[...document.querySelectorAll('section h2[id]')].map((h) => h.id)") == sections
        assert chromium.run("document.querySelectorAll('[data-chart] .main-svg').length") > 0
        assert chromium.complaints() == []
        assert chromium.requests() == [file.as_uri()]
        assert chromium.run("document.querySelectorAll('img').length") == 0
    assert CHIP in pages["nightly"][0].replace("&lt;", "<").replace("&gt;", ">")
