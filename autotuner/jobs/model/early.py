"""What is wrong with a command for a model, as far as that is known before the model is compiled."""

from __future__ import annotations

from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.model.arrays import load_array
from autotuner.jobs.model.choice import choose
from autotuner.jobs.model.context import KINDS, Model
from autotuner.jobs.model.inputs import refuse_absent
from autotuner.microkernels.library import find, search_folders
from autotuner.microkernels.variants import AUTO
from autotuner.targets import Target
from autotuner.tuning.options import Options

_PARAMETERS = (".irpa", ".gguf", ".safetensors")
"""How files of parameters end, for IREE's runtime."""


def check_words(model: Model, target: Target, options: Options, *, workspace: Path) -> None:
    """Refuses what the words alone tell: names of routes and microkernels, files that cannot be what is wanted."""
    choose(target, model.routes, set(KINDS.values()))
    for kernel in options.microkernels:
        if kernel.name != AUTO:
            find(kernel.name, search_folders(workspace))
    for text in model.inputs:
        refuse_absent(text)
    for path in model.expected:
        load_array(path, f"--expected {path}")
    for text in model.parameters:
        if not text.endswith(_PARAMETERS):
            raise UsageError(
                f"--parameters {text}: its name ends in none of {', '.join(_PARAMETERS)}.",
                remedy="Give --parameters [SCOPE=]FILE.irpa.",
            )
