"""Which options a user typed: what a command would not use is refused, never taken and ignored."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import typer

from autotuner.errors import UsageError

_EVERYWHERE = frozenset({"quiet", "no_color"})
"""How something is shown can always be said."""


@dataclass(frozen=True)
class Given:
    """The options and arguments on the command line: the names of their parameters, and how each is spelt."""

    spelt: Mapping[str, str] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic, compare=False)
    """When the command began, or when they were read: what is imported from then on is part of its time."""

    @classmethod
    def of(cls, context: typer.Context) -> "Given":
        found = {}
        for parameter in context.command.params:
            source = context.get_parameter_source(parameter.name or "")
            if parameter.name and source is not None and source.name == "COMMANDLINE":
                long = [word for word in parameter.opts if word.startswith("--")]
                found[parameter.name] = (long or [(parameter.metavar or parameter.name).upper()])[0]
        began = context.find_root().obj
        return cls(found, began) if isinstance(began, float) else cls(found)

    def __contains__(self, name: str) -> bool:
        return name in self.spelt

    def refuse(self, names: Iterable[str], why: str, *, remedy: str = "Leave it out.") -> None:
        """These are not used here; `why` goes on after the option's name."""
        for name in names:
            if name in self.spelt:
                raise UsageError(f"{self.spelt[name]} {why}.", remedy=remedy)

    def only(self, *names: str, where: str) -> None:
        """Nothing but these is used there."""
        self.refuse(sorted(set(self.spelt) - {*names} - _EVERYWHERE), f"has no meaning with {where}")
