"""The command line: parse, call, print. The only part of the package that prints.

Exit codes: 0 done, 1 some cells failed or are missing, 2 the input cannot be used, 3 the store or another place
cannot be used, 130 interrupted, 129 and 143 ended by SIGHUP and SIGTERM (the same command resumes).
"""

from __future__ import annotations

import sys

from uproar.lazy import defer_import


def main(arguments: list[str] | None = None) -> None:
    """Run the program. Loading it takes a moment, in which it may be interrupted like later."""
    defer_import("pandas")  # much imports it, and a command that is refused or only asks needs none of it
    try:
        from uproar.cli.app import main as program
    except KeyboardInterrupt:
        print("\nStopped before anything was done.", file=sys.stderr)
        sys.exit(130)
    program(arguments)


__all__ = ["main"]
