"""What a C compiler reads for one source, by its own account: every header, wherever it lies and whatever its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.system import process
from autotuner.system.digests import file_digest

_WORD = re.compile(r"(?:\\[ #]|\$\$|[^\s\\])+")
_BY_ASSEMBLER = re.compile(rb"\.(?:incbin|include)\b")


def reads(
    compiler: Path, flags: Sequence[str], source: Path, *, timeout: float
) -> tuple[list[str], process.Finished | None]:
    """A hash for each file that the compile reads; or how the compiler ended, when it refuses."""
    try:
        source.read_bytes()
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.", remedy="Is the path right?") from error
    done = process.run([compiler, *flags, "-M", "-MT", "x", source.absolute()], timeout=timeout)
    if not done.ok:
        return [], done
    files = prerequisites(done.stdout)
    for path in files:
        if path.is_relative_to(source.absolute().parent) and _BY_ASSEMBLER.search(path.read_bytes()):
            raise UsageError(
                f"{path} has the assembler read a file, which the C compiler does not tell of.",
                remedy="Put the data into a header and #include it.",
            )
    return [f"{path.name} {file_digest(path)}" for path in files], None


def prerequisites(rule: str) -> list[Path]:
    """Of the Makefile rule that `-M` prints, each once: `x: a.c b.h \\` with escaped blanks, # and $."""
    words = _WORD.findall(rule.partition(":")[2].replace("\\\n", " "))
    return [Path(re.sub(r"\\([ #])", r"\1", word).replace("$$", "$")) for word in dict.fromkeys(words)]
