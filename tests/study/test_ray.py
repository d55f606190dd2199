"""The Ray executor on a real cluster: several nodes on this machine, one of which is killed."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

import uproar
from tests.study.executors import ExecutorTests, reports_of
from tests.study.test_run import numbers
from tests.study.test_submitit import named, with_inputs
from uproar.audits import audits
from uproar.errors import BadInput
from uproar.plugins import bundle, install_bundle, load_file, source_hash
from uproar.store import Store
from uproar.study.audit import audit_requests, needed_studies
from uproar.study.graph import Done
from uproar.study.ray_executor import Ray
from uproar.study.remote_worker import Token
from uproar.study.run import plan

ray = pytest.importorskip("ray", reason="needs uproar[ray]")

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "worker_niceness": 0}
"""A node that is gone is noticed within seconds, not half a minute; workers do not starve beside other tests."""


@pytest.fixture(scope="module")
def cluster():
    """A head that does no jobs, and two nodes that do one at a time."""
    from ray.cluster_utils import Cluster

    path = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(uproar.__file__).parents[1]), path])
    head = {**NODE, "num_cpus": 0, "_system_config": QUICK}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(**NODE)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ["PYTHONPATH"] = path


@pytest.fixture
def joined(cluster):
    """This process as a member of the cluster, so that workers stay from test to test."""
    if not ray.is_initialized():
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    return cluster.address


class TestRay(ExecutorTests):
    @pytest.fixture(autouse=True)
    def _address(self, joined):
        self.address = joined

    def make(self, root, study):
        return Ray(root, self.address, study)

    def test_closing_cancels_what_runs(self, tmp_path, small):
        pid = tmp_path / "pid"
        (tmp_path / "slow.py").write_text(
            "import os, pathlib, time\ndef dawdles(model, x, target):\n"
            f"    pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n    time.sleep(600)\n"
        )
        study = small(estimators=["dawdles"], plugins=[str(tmp_path / "slow.py")], seeds=1)
        jobs = plan(study, Store(tmp_path)).jobs
        runner = self.make(str(tmp_path), study)
        runner.submit(with_inputs(next(job for job in jobs if named(job) == "dawdles"), tmp_path))
        while not pid.exists():
            time.sleep(0.05)
        assert [str(job) for job in runner.running()] == ["explain train images by dawdles seed 0"]
        runner.close()
        assert not list((tmp_path / "runs").iterdir())
        deadline = time.monotonic() + 20
        while Path(f"/proc/{pid.read_text()}").exists():
            assert time.monotonic() < deadline, "the worker still runs"
            time.sleep(0.1)

    def test_a_job_that_always_kills_its_worker_fails_and_the_rest_goes_on(self, tmp_path, small):
        (tmp_path / "deadly.py").write_text(
            "import os, signal\ndef deadly(model, x, target):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
        )
        study = small(
            estimators=["random", "deadly"],
            plugins=[str(tmp_path / "deadly.py")],
            seeds=1,
            metrics=["roar"],
            fractions=[0.5],
        )
        results = uproar.run(study, store=tmp_path / "store", ray=self.address)
        rows = results.cells.query("estimator == 'deadly' and fraction > 0")
        assert set(rows["status"]) == {"failed"}
        assert "its worker died 2 times, last on" in rows["reason"].iloc[0]
        assert set(results.cells.query("estimator == 'random'")["status"]) == {"done"}

    def test_a_store_that_no_node_sees_is_one_sentence(self, tmp_path, small):
        runner = self.make(str(tmp_path), small())
        try:
            (tmp_path / runner.token.name).unlink()
            with pytest.raises(BadInput, match="Node .* does not see the store .*: give a folder"):
                reports_of(runner, plan(small(), Store(tmp_path)).jobs[:1])
        finally:
            runner.close()

    def test_more_than_any_node_has_is_refused(self, tmp_path, small):
        with pytest.raises(BadInput, match=r"No node of the Ray cluster has 1 CPUs and 2 GPUs"):
            self.make(str(tmp_path), small(resources={"gpus": 2}))


def test_jobs_of_every_audit_are_done_on_a_cluster(joined, tmp_path, small):
    """Audits need other data, models and recipes than the study they judge: nodes are given the main study alone."""
    study = small(
        estimators=["random", "grad", "sobel", "block_random", "sq(grad)"],
        metrics=["roar"],
        fractions=[0.5],
        seeds=1,
        audits=list(audits),
    )
    every = audit_requests(study)
    assert not [one.refused for one in every if one.refused]
    store = Store(tmp_path)
    plans = [plan(part, store) for part in needed_studies(every).values()]
    firsts = {job.id: job for todo in plans for job in todo.jobs[:1]}
    assert len({job.data for job in firsts.values()}) > 2
    runner = Ray(str(tmp_path), joined, study)
    try:
        reports = reports_of(runner, firsts.values())
    finally:
        runner.close()
    assert {type(outcome) for report in reports for outcome in report.outcomes.values()} == {Done}
    assert not list((tmp_path / "runs").iterdir())


def test_the_token_of_a_run_that_was_killed_goes_with_the_next_run(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
    ours = {"host": socket.gethostname(), "begun": time.time()}
    said = {
        "dead": {**ours, "pid": int(gone.stdout)},
        "alive": {**ours, "pid": os.getppid()},
        "elsewhere": {**ours, "host": "another", "pid": 1},
        "old": {"host": "another", "pid": 1, "begun": 0},
    }
    folder = tmp_path / "runs"
    folder.mkdir()
    for name, content in said.items():
        (folder / name).write_text(json.dumps(content))
    token = Token(str(tmp_path))
    token.write()
    assert {file.name for file in folder.iterdir()} == {"alive", "elsewhere", Path(token.name).name}
    token.remove()
    assert {file.name for file in folder.iterdir()} == {"alive", "elsewhere"}


PLUGIN = """
from pathlib import Path

from carrying.sums import total

def carried(model, x, target):
    Path("WHERE").write_text(total.__globals__["__file__"])
    return total(x)
"""
MODEL = """
from torch import nn

def make(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], classes))
"""


def test_every_kind_of_job_gives_the_numbers_of_one_process(joined, tmp_path, small):
    """Train, explain, retrain, evaluate, judge, score; a model and estimators in files."""
    (tmp_path / "plug.py").write_text(PLUGIN.replace("WHERE", str(tmp_path / "where")))
    (tmp_path / "carrying").mkdir()
    (tmp_path / "carrying" / "sums.py").write_text("def total(x):\n    return x.sum(1)\n")
    (tmp_path / "net.py").write_text(MODEL)
    study = small(
        plugins=[str(tmp_path / "plug.py")],
        model=f"{tmp_path}/net.py:make",
        estimators=["grad", "sobel", "carried"],
        metrics=["roar", "roar:no-retrain", "evaluator", "deletion(steps=4)"],
        seeds=1,
    )
    kinds = {job.step for job in plan(study, Store(tmp_path / "ray")).jobs}
    assert kinds == {
        "base_model",
        "ranking",
        "retrained",
        "without_retraining",
        "evaluator",
        "evaluation",
        "metric_of_maps",
    }
    apart = uproar.run(study, store=tmp_path / "ray", ray=joined)
    assert set(apart.cells["status"]) == {"done"}
    used = Path((tmp_path / "where").read_text())
    assert used.name == "sums.py" and tmp_path not in used.parents, "a module did not travel"
    here = uproar.run(study, store=tmp_path / "store", jobs=1)
    pd.testing.assert_frame_equal(numbers(apart), numbers(here))
    pd.testing.assert_series_equal(apart.scores["value"], here.scores["value"])
    assert apart.cells["bits"].notna().any()
    pd.testing.assert_series_equal(apart.cells["bits"], here.cells["bits"])


HELD = """
import time
from pathlib import Path

FOLDER = Path("WHERE")

def held(model, x, target):
    begun = FOLDER / "begun"
    if not begun.exists():
        begun.touch()
        time.sleep(40)
    return x.sum(1)

def waits(model, x, target):
    deadline = time.monotonic() + 40
    while not (FOLDER / "killed").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return -x.sum(1)
"""


def test_a_node_killed_in_mid_study_costs_nothing_but_time(cluster, tmp_path, small):
    """The other node does the rest; numbers as in one process, and per node one sees what was done where.

    One estimator holds its node until that is dead, the other waits for it: the node dies at work.
    """
    killed = tmp_path / "killed"
    (tmp_path / "plug.py").write_text(HELD.replace("WHERE", str(tmp_path)))
    study = small(
        estimators=["held", "waits"],
        plugins=[str(tmp_path / "plug.py")],
        metrics=["roar:no-retrain"],
        seeds=1,
        fractions=[0.2, 0.6],
    )
    seen: dict[str, int] = {}

    def listen(progress) -> None:
        seen.update({name: node.done for name, node in progress.machines.items()})
        at = {job: name for name, node in progress.machines.items() for job in node.doing}
        holding = [name for job, name in at.items() if "by held" in job]
        if holding and (tmp_path / "begun").exists() and not killed.exists():
            (name,) = set(holding)
            node = next(n for n in cluster.worker_nodes if name.endswith(n.node_id[:5]))
            cluster.remove_node(node, allow_graceful=False)
            killed.touch()

    jobs = len(plan(study, Store(tmp_path / "a")).jobs)
    ray.shutdown()
    results = uproar.run(study, store=tmp_path / "a", ray=cluster.address, listen=listen)
    assert not ray.is_initialized()
    assert killed.exists(), "the job never began"
    assert set(results.cells["status"]) == {"done"}
    assert any(
        "by held seed 0" in notice and "died on" in notice and "elsewhere" in notice for notice in results.notices
    )
    assert len(seen) == 2 and sum(seen.values()) == jobs
    here = uproar.run(study, store=tmp_path / "b", jobs=1)
    pd.testing.assert_frame_equal(numbers(results), numbers(here))


def test_addresses_where_no_cluster_is_are_one_sentence(tmp_path, small, monkeypatch):
    def refused(address: str, sentence: str) -> None:
        with pytest.raises(BadInput, match=sentence):
            uproar.run(small(), store=tmp_path, ray=address)

    ray.shutdown()
    refused("127.0.0.1:1", r"^No Ray cluster answers at 127.0.0.1:1 \(Connection refused\); start it")
    refused("nonsense", r"^--ray takes 'auto' or HOST:PORT such as .*, not 'nonsense'\.$")
    refused("ray://head:10001", "from outside use `ray job submit")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    refused("auto", "^No Ray cluster answers at 127.0.0.1:1")
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "log_message", lambda *_: None)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    refused(f"127.0.0.1:{server.server_port}", "is not a Ray cluster; its port is 6379 by default")
    server.shutdown()
    server.server_close()
    with pytest.raises(BadInput, match="Give --jobs for this machine, --ray or --slurm for a cluster"):
        uproar.run(small(), store=tmp_path, ray="auto", jobs=2)
    with pytest.raises(BadInput, match="No node sees memory://x"):
        uproar.run(small(), store="memory://x", ray="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    refused("auto", r"^--ray needs Ray: pip install 'uproar\[ray\]'\.$")


def test_a_lent_file_is_the_same_file_on_a_machine_that_lacks_it(tmp_path):
    (tmp_path / "net.py").write_text(textwrap.dedent(MODEL))
    install_bundle("/nowhere/net.py", bundle(tmp_path / "net.py"))
    assert source_hash("/nowhere/net.py") == source_hash(tmp_path / "net.py")
    assert load_file("/nowhere/net.py").make.__module__.startswith("uproar_file_net_")
