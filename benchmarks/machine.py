"""Names the machine, so that no figure stands alone."""

from __future__ import annotations

from autotuner.devices.environment import capture
from autotuner.iree.tools import Tools


def machine() -> str:
    here = capture("local-task", Tools.find())
    return f"{here['cpu']}, {here['cores']} cores, {here['machine']}, IREE {here['iree']}, load {here['load']:.2f}"
