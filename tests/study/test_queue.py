"""Jobs are handed out when all that they need has ended, in the order of the plan."""

from __future__ import annotations

import random

import pytest

from uproar.study.graph import Job, Result
from uproar.study.run import Queue


def job(name: int, needs: list[int]) -> Job:
    result = Result("base_model", str(name), str(name), "", {})
    return Job((result,), needs=tuple(dict.fromkeys(map(str, needs))), name=str(name))


@pytest.fixture
def jobs():
    """A hundred jobs that need up to three earlier ones, some of them named twice."""
    draw = random.Random(0)
    return [job(n, draw.choices(range(n), k=draw.randint(0, 3)) if n else []) for n in range(100)]


def test_every_job_is_handed_out_once_and_after_its_needs(jobs):
    queue, ended = Queue(jobs), []
    while queue.ready:
        ready = [j for j in jobs if j.id not in ended and set(j.needs) <= set(ended)]
        assert set(queue.ready) == set(ready), "neither too early nor too late"
        first = queue.ready.popleft()
        ended.append(first.id)
        queue.end(first)
    assert sorted(ended, key=int) == [j.id for j in jobs]


def test_jobs_without_needs_keep_the_order_of_the_plan(jobs):
    assert list(Queue(jobs).ready) == [j for j in jobs if not j.needs]
