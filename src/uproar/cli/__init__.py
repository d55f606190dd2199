"""The command line: parse, call, print. The only part of the package that prints.

Exit codes: 0 done, 1 some cells failed, 2 the input cannot be used, 3 the store cannot be used,
130 interrupted, 129 and 143 ended by SIGHUP and SIGTERM (the same command resumes).
"""

from uproar.cli.app import main

__all__ = ["main"]
