"""Split by file: what is built on one machine and timed on another. Nothing here needs a compiler or a database."""
