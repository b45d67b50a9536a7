"""Which configuration next: ask for some, tell what they came to."""

from autotuner.search.make import Sampler, make_search
from autotuner.search.protocol import Search

__all__ = ["Sampler", "Search", "make_search"]
