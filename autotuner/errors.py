"""One class a failure. The message says what is wrong and what to do next; the class carries the exit code."""

from autotuner._version import IREE_RANGE

INSTALL_IREE = f"Install it with `pip install 'iree-base-compiler{IREE_RANGE}' 'iree-base-runtime{IREE_RANGE}'`."
EXIT_NO_WINNER, EXIT_REGRESSION, EXIT_INTERRUPTED, EXIT_PIPE = 6, 6, 130, 141
"""Exit codes that no error stands for; the last is what a shell gives for SIGPIPE."""
_LONGEST = 1500
"""Characters of a message; of a longer one the beginning and the end are told, whatever a stranger's file has in it."""


class AutotuneError(Exception):
    """A failure that the user can act on: printed as one line, never as a traceback."""

    exit_code = 2

    def __init__(self, message: str, *, remedy: str = "") -> None:
        if len(message) > _LONGEST:
            message = f"{message[: _LONGEST // 2]} … {message[-_LONGEST // 2 :]}"
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        stop = "" if not self.remedy or self.message.endswith((".", "!", "?", "…", ";")) else "."
        return f"{self.message}{stop} {self.remedy}".strip()


class UsageError(AutotuneError):
    """Bad input: a shape, a dtype, an option that cannot be meant."""

    exit_code = 2


class OutOfTimeError(AutotuneError):
    """The budget is over in the middle of something; a run that has anything to report catches this and does so.

    Not an error in what was asked: where those are a candidate's fault, this is not.
    """

    def __init__(
        self,
        message: str = "ran out of time before anything was timed.",
        *,
        remedy: str = "Give a longer --budget.",
    ) -> None:
        super().__init__(message, remedy=remedy)


class NoCandidateError(AutotuneError):
    """There is no legal configuration, or none of them works."""

    exit_code = 3


class WrongResultError(AutotuneError):
    """What would be measured or shipped computes the wrong numbers."""

    exit_code = 4


class EnvironmentFailure(AutotuneError):
    """A tool, a device, a disk or a database is not as it must be."""

    exit_code = 5


class ToolMissingError(EnvironmentFailure):
    """One of IREE's programs is not installed."""


class DeviceError(EnvironmentFailure):
    """The device does not answer, or the baseline does not run on it."""


class StorageError(EnvironmentFailure):
    """The results database or the workspace cannot be read or written."""


class BusyError(EnvironmentFailure):
    """Another run holds what this one needs."""


class Bug(AutotuneError):
    """What should not happen: the fault is ours."""

    exit_code = 1
