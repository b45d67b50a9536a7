"""What tests of the command line share."""

from tests.support.command_line import here

__all__ = ["here"]
