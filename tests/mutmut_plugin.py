"""For mutmut 3.8, which asks items for an attribute that pytest 9.2 no longer has."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        vars(item)["_nodeid"] = item.nodeid
