"""What was proven on a chip, for those who have the same one: a folder of JSON Lines files, made of results' rows."""

from autotuner.registry.entry import RegistryEntry as RegistryEntry
from autotuner.registry.folder import Known as Known
from autotuner.registry.folder import Registry as Registry
