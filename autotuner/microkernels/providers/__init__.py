"""The providers of microkernels, by the `kind` of a manifest's [provider]."""

from __future__ import annotations

from collections.abc import Mapping

from autotuner.microkernels.providers.provider import ProviderEntry

PROVIDERS: Mapping[str, ProviderEntry] = {
    "c": ProviderEntry("autotuner.microkernels.providers.c:C", chips=("x86_64", "aarch64")),
    "triton": ProviderEntry(
        "autotuner.microkernels.providers.triton:Triton", chips=("gfx", "sm_"), reports=("shared",)
    ),
    "cuda": ProviderEntry("autotuner.microkernels.providers.cuda:Cuda", chips=("sm_",)),
}
"""A new one is a module here and an entry of this table."""
