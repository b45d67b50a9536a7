"""What was used last, for a process that stays: as many things, and as many bytes, as may stay with it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Kept(Generic[T]):
    """What was used last, as much of it as may stay."""

    count: int
    bytes: int
    _items: OrderedDict[str, tuple[T, int]] = field(default_factory=OrderedDict)

    def get(self, key: str, make: Callable[[], tuple[T, int]]) -> T:
        if key not in self._items:
            self._items[key] = make()
            while len(self._items) > 1 and (len(self._items) > self.count or self._size() > self.bytes):
                self._items.popitem(last=False)
        self._items.move_to_end(key)
        return self._items[key][0]

    def grow(self, key: str, size: int) -> None:
        """What is kept there takes so many bytes more."""
        item, known = self._items[key]
        self._items[key] = item, known + size

    def keep_only(self, key: str) -> None:
        for other in [name for name in self._items if name != key]:
            del self._items[other]

    def clear(self) -> None:
        self._items.clear()

    def _size(self) -> int:
        return sum(size for _, size in self._items.values())
