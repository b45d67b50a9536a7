"""Is it right, and is it faster: checks, races, intervals."""
