"""Every figure in the documents is the one that was measured, or the one in the code."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.docs.figures import REFERENCE, Claim, Listing, claims, documents, figures, listings, read, uncovered


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: str(claim.text))
def test_a_figure_is_that_of_its_raw_output_or_of_the_code(claim: Claim) -> None:
    for document in claim.documents:
        assert claim.text in read(document), f"{document} no longer says {claim.text!r}"
    assert claim.disagreements() == []


@pytest.mark.parametrize("document", documents())
def test_no_figure_is_without_a_source(document: str) -> None:
    missing = list(uncovered(document))
    assert not missing, "link them in results/reference/figures.toml, or take them out:\n" + "\n".join(missing)


@pytest.mark.parametrize("listing", listings(), ids=lambda listing: str(listing.command))
def test_a_listing_is_what_the_command_printed(listing: Listing) -> None:
    block = read(listing.document).split(f"```\n$ {listing.command}\n", 1)[1].split("\n```", 1)[0]
    printed = {line.rstrip() for line in (REFERENCE / listing.file).read_text().splitlines()}
    assert [line for line in block.splitlines() if line != "…" and line.rstrip() not in printed] == []


def test_a_wrong_digit_in_any_measured_figure_is_found() -> None:
    for claim in claims():
        if claim.why:
            continue
        for figure in figures(claim.text):
            last = figure.start + re.match(r"[\d.,]*", figure.text).end() - 1  # type: ignore[union-attr]
            digit = str((int(claim.text[last]) + 1) % 10)
            wrong = dataclasses.replace(claim, text=claim.text[:last] + digit + claim.text[last + 1 :])
            assert wrong.disagreements(), f"{wrong.text!r} passes"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.516x (1.514 to 1.518)", ["1.516x", "1.514", "1.518"]),
        ("597 µs instead of 905 µs, 2.9 % of it", ["597 µs", "905 µs", "2.9 %"]),
        ("18 of 18 entries", ["18", "18 entries"]),
        ("1,369 + 606 configurations", ["1,369", "606 configurations"]),
        ("4096x4096x4096 f16 on sm_80, a 3x3 filter, exit code 2, 1x56x56x64", []),
    ],
)
def test_what_counts_as_a_figure(text: str, found: list[str]) -> None:
    assert [figure.text for figure in figures(text)] == found


def test_the_table_of_the_error_bounds_has_no_honest_kernel_refused_and_no_wrong_one_passed() -> None:
    """And the documents count its cases right."""
    lines = (REFERENCE / "accuracy.txt").read_text().splitlines()
    honest, wrong = ([line for line in lines if line.startswith(kind)] for kind in ("honest", "wrong"))
    assert all(re.search(r": 0 of \d+ refused", line) for line in honest)
    assert all(re.search(r": 0 of \d+ pass", line) for line in wrong)
    largest = max(float(re.search(r"error ([\d.]+) of", line)[1]) for line in honest)  # type: ignore[index]
    draws: dict[str, set[int]] = {"many": set(), "deep": set()}
    for line in honest:
        depth, count = (int(n) for n in re.search(r"K = (\d+), .*0 of (\d+)", line).groups())  # type: ignore[union-attr]
        draws["many" if depth < 65536 else "deep"].add(count)
    text = " ".join(read("docs/how-it-works.md").split())
    assert f"none of {len(honest)} honest cases" in text
    assert f"none of {len(wrong)} wrong cases passes" in text
    assert f"largest error is {largest:.2f} of the bound" in text
    assert f"({min(draws['many']):,} draws each, {min(draws['deep']):,} at K = 65,536)" in text
