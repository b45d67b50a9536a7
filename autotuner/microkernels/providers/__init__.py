"""Where microkernels come from, by the word that `kind` of a manifest's [provider] has for it."""

from __future__ import annotations

from collections.abc import Mapping

from autotuner.microkernels.providers.c import C
from autotuner.microkernels.providers.cuda import Cuda
from autotuner.microkernels.providers.provider import Provider
from autotuner.microkernels.providers.triton import Triton

PROVIDERS: Mapping[str, Provider] = {"c": C(), "triton": Triton(), "cuda": Cuda()}
"""A new one is a module here and an entry of this table."""
