"""How much more is done by two workers than by one, and what Ray costs per job.

    python benchmarks/scaling.py [--networks 24] [--jobs 200]

First, the same trainings by one worker process and by two, both already started, several times in turn; the medians are compared.
Target: two do at least 1.7 times as much. Then jobs whose result is in the store already, so that a worker has next to nothing
to do: through this process, through one worker process, and through a Ray cluster of two nodes on this machine. What is left
after subtracting the time in this process is the overhead of an executor per job, in milliseconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import uproar
from uproar.store import Store
from uproar.study.executors import Processes, Serial
from uproar.study.graph import Job
from uproar.study.ray_executor import Ray
from uproar.study.run import plan

TARGET = 1.7
ROUNDS = 3


def study(networks: int, epochs: int) -> uproar.Study:
    return uproar.study_of(
        {
            "task": "digits",
            "estimators": ["random"],
            "metrics": ["roar:no-retrain"],
            "fractions": [0.5],
            "seeds": networks,
            "recipe": {"epochs": epochs},
        }
    )


def trainings(store: str, networks: int, epochs: int) -> list[Job]:
    jobs = plan(study(networks, epochs), Store(store)).jobs
    return [job for job in jobs if job.step == "base_model"]


def finish(runner, jobs: list[Job]) -> float:
    """Seconds until all jobs have ended, on workers that have started."""
    began = time.perf_counter()
    pending = {runner.submit(job) for job in jobs}
    while pending:
        pending -= runner.wait(pending)
    return time.perf_counter() - began


def warm(runner, folder: str) -> None:
    """Every worker has loaded its libraries and the data."""
    finish(runner, trainings(folder, 2 * runner.workers, 1))


def seconds_with(workers: int, networks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        runner = Processes(folder, workers)
        try:
            warm(runner, folder)
            return finish(runner, trainings(folder, networks, 12))
        finally:
            runner.close()


def speedup(networks: int) -> float:
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for workers, taken in seconds.items():
            taken.append(seconds_with(workers, networks))
    one, two = (statistics.median(taken) for taken in seconds.values())
    print(f"{networks} trainings: one worker {one:.1f} s, two workers {two:.1f} s")
    return one / two


def overheads(count: int) -> dict[str, float]:
    """Milliseconds per job beyond what the job itself takes."""
    from ray.cluster_utils import Cluster

    path = [str(Path(uproar.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    with tempfile.TemporaryDirectory() as folder:
        jobs = trainings(folder, 1, 1)
        serial = Serial(folder)
        finish(serial, jobs)  # from now on the store has it
        many = jobs * count
        result = {"in this process": finish(serial, many)}
        runner = Processes(folder, 1)
        finish(runner, jobs)
        result["process"] = finish(runner, many)
        runner.close()
        cluster = Cluster(initialize_head=True, head_node_args={**node, "num_cpus": 0})
        try:
            for nodes in (1, 2):
                cluster.add_node(**node)
                there = Ray(folder, cluster.address, study(1, 1))
                finish(there, jobs * 20)
                result[f"Ray, {nodes} node{'s' * (nodes > 1)}"] = finish(there, many)
                there.close()
        finally:
            cluster.shutdown()
    itself = result.pop("in this process")
    print(f"a job itself takes {1e3 * itself / count:.2f} ms")
    return {name: 1e3 * (seconds - itself) / count for name, seconds in result.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--networks", type=int, default=24)
    options.add_argument("--jobs", type=int, default=200)
    given = options.parse_args()
    load = os.getloadavg()[0]
    print(f"load of the machine before: {load:.1f}")
    ratio = speedup(given.networks)
    print(f"two workers do {ratio:.2f}x as much as one (target {TARGET}x)")
    for name, milliseconds in overheads(given.jobs).items():
        print(f"overhead per job, {name}: {milliseconds:.1f} ms")


if __name__ == "__main__":
    main()
