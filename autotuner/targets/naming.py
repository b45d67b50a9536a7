"""Parses `--device`: one device, several of one kind, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from autotuner.errors import UsageError
from autotuner.targets.backends import Backend, backend_on

NO_DEVICE = "none"
"""The `--device` without any: candidates are compiled and proven only."""
TWIN = "#"
"""The separator after a URI, before the number of a second process on the same processor, or a worker's name."""
ONE_KIND = "Tune for each kind in a run of its own."


def iree_uri(name: str) -> str:
    """The URI for IREE, without that suffix."""
    return name.partition(TWIN)[0]


def which_device(uri: str) -> str:
    """The driver's name of a device: a number, or an identifier."""
    return iree_uri(uri).partition("://")[2].partition("?")[0] or "0"


def named_devices(words: str, backend: Backend) -> tuple[str, ...]:
    """The devices of `--device`, with unique names."""
    names = [word.strip() for word in words.split(",")]
    if len(names) == 1:
        if backend_on(names[0]) not in (None, backend):
            raise _not_for(backend, names[0], words, remedy=f"Use --device {backend.device}, or another --target.")
        return (names[0],)
    if "" in names:
        raise UsageError(f"--device {words} has an empty name.", remedy="Write URIs with a comma between them.")
    if NO_DEVICE in names:
        raise UsageError(
            f"--device {words} names {NO_DEVICE} beside a device.", remedy="Name devices, or `none` alone."
        )
    for name in names:
        if _driver(name) not in backend.drivers or TWIN in name:
            raise _not_for(backend, name, words, remedy=ONE_KIND)
    require_one_kind({name: _driver(name) for name in names})
    return tuple(_distinct(names, words, backend))


def _not_for(backend: Backend, name: str, words: str, *, remedy: str) -> UsageError:
    known = f"{', '.join(backend.drivers[:-1])} or {backend.drivers[-1]}" if backend.drivers[1:] else backend.device
    return UsageError(
        f"--device {words}: {name} is not a device for {backend.name} code, whose devices are {known}.", remedy=remedy
    )


def require_one_kind(kinds: Mapping[str, str]) -> None:
    """Refuses devices of different kinds, whose times cannot be compared; an unknown kind fits any."""
    known = {name: kind for name, kind in kinds.items() if kind}
    if len(set(known.values())) > 1:
        (first, kind), *others = known.items()
        other = next((name, what) for name, what in others if what != kind)
        raise UsageError(
            f"--device names devices of different kinds: {first} is {kind}, {other[0]} is {other[1]}.", remedy=ONE_KIND
        )


def _driver(name: str) -> str:
    return name.partition("://")[0]


def _distinct(names: list[str], words: str, backend: Backend) -> list[str]:
    """Unique names: a processor may be named more than once, to try several devices."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        which = name.partition("://")[2] or "0"
        seen[which if not backend.on_host else name] += 1
        count = seen[which if not backend.on_host else name]
        if count > 1 and not backend.on_host:
            raise UsageError(f"--device {words} names {name} twice.", remedy="Name each device once.")
        found.append(name if count == 1 else f"{name}{TWIN}{count}")
    return found
