"""For mutmut 3.8: what it asks items for that pytest 9.2 no longer has, and the quickest tests first."""

from __future__ import annotations

import pytest
from mutmut.state import state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        vars(item)["_nodeid"] = item.nodeid
    items.sort(key=lambda item: state().duration_by_test.get(item.nodeid, 0.0))
