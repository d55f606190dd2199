"""What a worker process does: takes jobs from a pipe until it closes. Started by `launch`, not by people."""

from __future__ import annotations

from multiprocessing.connection import Connection

import torch

from uproar.errors import UproarError
from uproar.extend import load_plugin
from uproar.study.run_job import do


def serve(handle: int) -> None:
    """Serve jobs until the parent closes the pipe or is gone; first it says where the store is, and the plug-ins."""
    torch.set_num_threads(1)
    connection: Connection = Connection(handle)
    try:
        root, plugins = connection.recv()
    except (EOFError, OSError):
        return
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
