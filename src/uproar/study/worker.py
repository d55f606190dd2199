"""A worker process: takes jobs from a pipe until it closes. Started by `execute.Processes`, not by people."""

from __future__ import annotations

import signal
import sys
from multiprocessing.connection import Connection

import torch

from uproar.errors import UproarError
from uproar.extend import load_plugin
from uproar.study.work import do


def main(handle: int, root: str, plugins: list[str]) -> None:
    """Serve jobs until the parent closes the pipe or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    torch.set_num_threads(1)
    connection: Connection = Connection(handle)
    for file in plugins:
        load_plugin(file)
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer: object = do(job, root)
        except UproarError as error:
            answer = error
        try:
            connection.send(answer)
        except OSError:
            return


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
