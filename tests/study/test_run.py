"""Studies run: the same numbers everywhere, only what is new, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import uproar
from tests.processes import children, left_after
from tests.readings import base_network, forget, reading_of, removed
from tests.study.executors import ExecutorTests
from uproar.errors import BadInput, StoreError
from uproar.estimators import read_chain
from uproar.removal import ranks
from uproar.seeds import Draws
from uproar.statistics.design import BASELINES
from uproar.store import Store
from uproar.study.collect import collect
from uproar.study.executors import Processes, Serial, executor
from uproar.study.grid import accuracies_of
from uproar.study.run import plan, run_study
from uproar.training import accuracy, fit, predict

ORDER = ["metric", "estimator", "fraction", "seed"]


def numbers(results) -> pd.DataFrame:
    return results.cells.sort_values(ORDER)[[*ORDER, "accuracy", "status", "ties"]].reset_index(drop=True)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    from tests.study.conftest import SMALL

    store = tmp_path_factory.mktemp("store")
    return uproar.run(SMALL, store=store, jobs=1), store


def test_every_cell_has_a_number(done):
    results, _ = done
    assert set(results.cells["status"]) == {"done"}
    # 4 estimators x 3 metrics x (2 fractions + plain training) x 2 seeds
    assert len(results.cells) == 72
    assert results.cells["accuracy"].between(0, 1).all()


def test_several_random_rankings_are_cells_of_their_own_and_one_baseline(small, tmp_path):
    """The first is the `random` of a study with one; metrics and metrics compare with the mean over all."""
    settings = {"estimators": ["grad"], "metrics": ["roar", "insertion(steps=4)"], "fractions": [0.6]}
    one = uproar.run(small(**settings), store=tmp_path, jobs=1)
    results = uproar.run(small(**settings, random_rankings=3), store=tmp_path, jobs=1)
    names = ["random", "random(draw=1)", "random(draw=2)"]
    cells = results.done[results.done["fraction"] > 0].pivot(index="estimator", columns="seed", values="accuracy")
    alone = one.done[one.done["fraction"] > 0].pivot(index="estimator", columns="seed", values="accuracy")
    assert set(cells.index) == {"grad", *names} and cells.loc["random"].equals(alone.loc["random"])
    assert cells.loc[names].nunique(axis=0).min() > 1, "rankings that are the same ranking"
    (view,) = results.views
    at = view.accuracy("roar", "random")[0.6]
    assert at.to_numpy() == pytest.approx(cells.loc[names].mean().to_numpy())
    raw = results.image_scores[results.image_scores["estimator"].isin(names)]
    table = results.metric_scores[view.task, view.model].table.set_index("method")
    assert set(table.index) == {*BASELINES, "grad"}
    assert table.loc["random", "value"] == pytest.approx(raw["value"].mean())
    merged = view.image_scores[view.image_scores["estimator"] == "random"].set_index(["seed", "image"])["value"]
    expected = raw.groupby(["seed", "image"])["value"].mean()
    assert merged.sort_index().to_numpy() == pytest.approx(expected.sort_index().to_numpy())


def test_processes_give_the_same_numbers_as_one_process(done, tmp_path, small):
    pd.testing.assert_frame_equal(numbers(done[0]), numbers(uproar.run(small(), store=tmp_path, jobs=2)))


def test_roar_is_what_its_definition_says(done, small):
    """The whole metric once more, by hand: explain, rank, fill in train and test, retrain, count."""
    results, store = done
    study = small()
    reading = reading_of(study, store)
    task, seed, fraction = reading.task, 1, 0.6
    base = base_network(reading, seed)
    for metric, keep in (("roar", False), ("kar", True)):
        parts = {}
        for split in (task.train, task.test):
            x = split.read(slice(None))
            target = predict(base, x).argmax(1)
            inputs = x.clone().requires_grad_()
            scores = base(inputs)
            scores.gather(1, target[:, None]).sum().backward()
            squares = inputs.grad.square().sum(1).flatten(1)
            place = ranks(squares, Draws.of(seed, len(x), split.name))
            top = (place < round(fraction * 64)).view(-1, 1, 8, 8)
            gone = ~top if keep else top
            colour = task.train.read(slice(None)).mean((0, 2, 3)).view(1, -1, 1, 1)
            parts[split.name] = torch.where(gone, colour, x)
        net = uproar.build(study.models[0], task, seed)
        fit(net, parts["train"], task.train.labels, study.recipe, seed)
        expected = accuracy(predict(net, parts["test"]), task.test.labels)
        row = results.cells.query(
            "metric == @metric and estimator == 'sq(grad)' and fraction == @fraction and seed == @seed"
        )
        assert row["accuracy"].item() == pytest.approx(expected, abs=1 / 30 + 1e-9)
        assert abs(row["accuracy"].item() - expected) < 1e-9


def test_nothing_removed_is_plain_training_run_once(done):
    results, _ = done
    for metric, plain in (("roar", 0.0), ("kar", 1.0), ("roar:no-retrain", 0.0)):
        rows = results.cells.query("metric == @metric and fraction == @plain")
        assert (rows.groupby("seed")["accuracy"].nunique() == 1).all()
    assert len(list(Store(done[1]).keys("model"))) == 2


def test_the_same_study_again_does_nothing(done, small):
    _, store = done
    assert plan(small(), Store(store)).jobs == []
    before = {p: p.stat().st_mtime_ns for p in store.rglob("*.safetensors")}
    uproar.run(small(), store=store, jobs=1)
    assert before == {p: p.stat().st_mtime_ns for p in store.rglob("*.safetensors")}


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        (
            {"estimators": ["random", "grad", "sq(grad)", "sobel", "grad_input"]},
            {"ranking": 4, "retrained": 8, "without_retraining": 2},
        ),
        ({"fractions": [0.2, 0.6, 0.4]}, {"ranking": 12, "retrained": 16, "without_retraining": 2}),
        ({"seeds": 3}, {"base_model": 1, "ranking": 6, "retrained": 16, "without_retraining": 1}),
        ({"metrics": ["roar", "kar:no-retrain"]}, {"without_retraining": 2}),
    ],
)
def test_adding_something_runs_only_what_is_new(done, small, changes, kinds):
    jobs = plan(small(**changes), Store(done[1])).jobs
    result = pd.Series([job.step for job in jobs]).value_counts().to_dict()
    assert result == kinds


def test_a_fraction_added_later_gives_the_same_number_as_one_asked_for_at_once(tmp_path, small):
    late, early = tmp_path / "late", tmp_path / "early"
    one = small(seeds=1, estimators=["grad"], metrics=["roar"])
    uproar.run(one, store=late, jobs=1)
    more = one.with_changes(fractions=[0.2, 0.4, 0.6])
    a, b = uproar.run(more, store=late, jobs=1), uproar.run(more, store=early, jobs=1)
    pd.testing.assert_frame_equal(numbers(a), numbers(b))


def test_replicates_are_whole_and_paired(done, small):
    """All cells of a replicate start from the same weights and see the batches in the same order."""
    reading = reading_of(small(), done[1])
    a = uproar.build("cnn-small(width=4)", reading.task, 1).state_dict()
    b = uproar.build("cnn-small(width=4)", reading.task, 1).state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)
    cells = accuracies_of(small(), reading.setting)
    chosen = [c.result for c in cells if (c.metric, c.fraction) == ("roar", 0.2) and c.estimator in ("grad", "random")]
    assert len(set(chosen)) == len(chosen) == 4


def test_dear_maps_that_share_passes_are_scored_together_and_say_the_same_as_alone(tmp_path, small):
    """An ensemble's noisy copies are made once for all that is made of them; what fails, fails alone."""
    noisy = [f"{kind}(ig(steps=8), samples=6)" for kind in ("sg", "sg_sq", "var")]
    metrics = ["total_variation", "pointing_game"]  # the second has no boxes here

    def scored(names, folder):
        study = small(task="digits", limit=60, estimators=names, metrics=metrics, baselines=[], seeds=1)
        jobs = [job for job in plan(study, Store(folder)).jobs if job.step == "metric_of_maps"]
        table = uproar.run(study, store=folder, jobs=1).scores
        values = table[table["estimator"] != "random"].set_index(["estimator", "metric"])
        return [len({result["estimator"] for result in job.results}) for job in jobs], values

    jobs, together = scored([*noisy, "grad"], tmp_path / "together")
    assert sorted(jobs) == [1, 1, 3], "random, grad and the three of one noise"
    for name in noisy:
        one, alone = scored([name], tmp_path / name[:3])
        assert sorted(one) == [1, 1]
        for metric in metrics:
            columns = ["status", "value", "low", "high"]
            a, b = together.loc[(name, metric), columns], alone.loc[(name, metric), columns]
            pd.testing.assert_series_equal(a, b, check_exact=True)
        assert alone["status"].tolist() == ["done", "skipped"]


def test_a_metric_that_does_not_fit_the_images_fails_alone(tmp_path, small):
    """Its whole windows need larger images; what a job costs is guessed before that is found out."""
    metrics = ["total_variation", "deletion:coherency(unit=region)"]
    study = small(estimators=["random"], baselines=[], metrics=metrics, seeds=1)
    result = uproar.run(study, store=tmp_path, jobs=1).scores.set_index("metric")
    assert result.loc["total_variation", "status"] == "done"
    (other,) = [name for name in result.index if name.startswith("deletion")]
    assert result.loc[other, "status"] in ("failed", "skipped")
    assert "windows" in result.loc[other, "reason"]


def test_other_boxes_are_other_scores_but_not_another_network(tmp_path, small):
    def keys(moved: int) -> tuple[str, str, str]:
        task = uproar.load(study.tasks[0])
        other = replace(task, test=replace(task.test, boxes=task.test.boxes + moved))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("uproar.study.inputs._loaded", lambda *_: other)
            setting, chain = reading_of(study, tmp_path).setting, read_chain("oracle")
            score, (ranking,) = setting.score(chain, "pointing_game", 0), setting.ranking(chain, 0, "test")
            return setting.base_model(0).key, score.key, ranking.key

    study = small(task="planted(size=8, classes=3, train=60, test=30)", seeds=1)
    (model, score, order), (same, other_score, other_order) = keys(0), keys(1)
    assert keys(0) == (model, score, order)
    assert model == same and score != other_score and order != other_order


def test_a_cell_keeps_the_test_scores_of_every_image_in_float16(done):
    store = Store(done[1])
    keys = list(store.keys("cell"))
    assert len(keys) == 48
    items = [store.read("cell", key) for key in keys]
    assert sum("none" in item.arrays for item in items) == 16, "networks of roar are also shown whole images"
    for item in items:
        assert item.arrays["own"].shape == (30, 3) and item.arrays["own"].dtype == np.float16
        assert (item.arrays["own"].max(1) == 0).all()


def test_damaged_files_are_noticed_and_made_again(done, small, tmp_path):
    import shutil

    store = tmp_path / "copy"
    shutil.copytree(done[1], store)
    forget()
    for kind in ("cell", "ranking", "model"):
        for path in sorted((store / kind).rglob("*.safetensors"))[: None if kind == "cell" else 2]:
            content = bytearray(path.read_bytes())
            content[-1] ^= 255
            path.write_bytes(content)
    partial = collect(small(), Store(store))
    assert set(partial.cells["status"]) == {"missing"}
    assert len(partial.cells) == len(done[0].cells)
    again = uproar.run(small(), store=store, jobs=1)
    assert any("computed again" in notice for notice in (*partial.notices, *again.notices))
    pd.testing.assert_frame_equal(numbers(done[0]), numbers(again), check_exact=True)


BROKEN = """
import torch
import uproar

def nan_in_one(model, x, target):
    maps = x.sum(1)
    maps[0, 0, 0] = float("nan")
    return maps

def raises(model, x, target):
    raise KeyError("oops")

def does_not_apply(model, x, target):
    raise uproar.NotApplicable("it needs a transformer")

def fine(model, x, target):
    return x.sum(1)
"""


def test_failed_and_skipped_cells_are_values_with_reasons_and_others_go_on(tmp_path, small):
    (tmp_path / "broken.py").write_text(BROKEN)
    names = ["random", "nan_in_one", "raises", "does_not_apply", "fine"]
    study = small(plugins=[str(tmp_path / "broken.py")], estimators=names, seeds=1, metrics=["roar"])
    store = f"memory://{tmp_path.name}"
    results = uproar.run(study, store=store, jobs=1)
    result = results.cells.query("fraction > 0").groupby("estimator")[["status", "reason"]].first()
    assert result.loc["fine", "status"] == "done"
    assert result.loc["random", "status"] == "done"
    assert result.loc["nan_in_one", "status"] == "failed"
    assert "nan_in_one has NaN or infinite values in" in result.loc["nan_in_one", "reason"]
    assert result.loc["raises", "status"] == "failed"
    assert "KeyError: 'oops'" in result.loc["raises", "reason"]
    assert result.loc["does_not_apply", "status"] == "skipped"
    assert result.loc["does_not_apply", "reason"] == "it needs a transformer"
    # failures are not cached: the same study tries them again
    todo = plan(study, Store(store)).jobs
    assert {result["estimator"].name for job in todo for result in job.results if job.step == "ranking"} == {
        "nan_in_one",
        "raises",
        "does_not_apply",
    }


def test_channel_values_are_ranked_on_their_own_and_methods_without_channels_are_skipped(tmp_path, small):
    study = small(
        task="planted(size=8, channels=3, classes=3, train=60, test=30)",
        features="channel",
        seeds=1,
        metrics=["roar"],
        estimators=["random", "grad", "sobel"],
    )
    results = uproar.run(study, store=tmp_path, jobs=1)
    status = results.cells.query("fraction == 0.2").set_index("estimator")["status"].to_dict()
    assert status == {"random": "done", "grad": "done", "sobel": "skipped"}
    gone = removed(reading_of(study, tmp_path), "grad", 0.2)
    assert gone.shape == (30, 3, 8, 8)
    assert (gone.flatten(1).sum(1) == round(0.2 * 192)).all()


def test_controls_that_are_not_rankings_run_as_cells(tmp_path, small):
    study = small(
        estimators=["random", "bernoulli", "block_random_free"], seeds=1, metrics=["roar"], fractions=[0.5, 1.0]
    )
    results = uproar.run(study, store=tmp_path, jobs=1)
    assert set(results.cells["status"]) == {"done"}


def test_coin_flips_are_per_pixel_or_per_value_and_go_on_with_random_removal(tmp_path, small):
    """Hooker et al. flip a coin for every channel value; the share of the largest removal is random's alone."""
    study = small(
        task="planted(size=8, channels=3, classes=3, train=60, test=30)",
        estimators=["random", "grad", "bernoulli", "bernoulli(each=value)"],
        seeds=1,
        metrics=["roar"],
        fractions=[0.5],
        random_fractions=[0.9],
    )
    reading = reading_of(study, tmp_path)
    controls = (reading.ranking(read_chain(name), 0) for name in ("bernoulli", "bernoulli(each=value)"))
    pixels, values = (control.important(0.9) for control in controls)
    assert pixels.shape == (30, 8, 8) and values.shape == (30, 3, 8, 8)
    assert values.double().mean() == pytest.approx(0.9, abs=0.02) and (values.all(1) != values.any(1)).any()
    further = {cell.estimator for cell in accuracies_of(study, reading.setting) if cell.fraction == 0.9}
    assert further == {"random", "bernoulli", "bernoulli(each=value)"}
    assert set(uproar.run(study, store=tmp_path, jobs=1).cells["status"]) == {"done"}


SPLIT = "total_variation(split=train)"


def test_total_variation_of_training_maps_is_that_of_the_training_images(tmp_path, small):
    """Song et al. average it over the training set; the control sobel has a map that anybody can compute."""
    study = small(estimators=["random", "sobel"], seeds=1, metrics=["total_variation", SPLIT])
    results = uproar.run(study, store=tmp_path, jobs=1)
    task = uproar.load(study.tasks[0])
    values = results.image_scores.query("estimator == 'sobel'").groupby("metric")["value"]
    for metric, split in (("total_variation", task.test), (SPLIT, task.train)):
        images = split.read(slice(None))
        maps = uproar.explain(uproar.build("cnn-small(width=4)", task, 0), images, "sobel")
        low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
        scaled = (maps - low) / (high - low)
        steps = scaled.diff(dim=1).abs().sum((1, 2)) + scaled.diff(dim=2).abs().sum((1, 2))
        expected = steps / scaled[0].numel()
        assert values.get_group(metric).to_numpy() == pytest.approx(expected.numpy(), abs=1e-5), metric


def test_given_weights_make_the_base_model_fixed(tmp_path, small):
    from safetensors.torch import save_file

    task = uproar.load(small().tasks[0])
    net = uproar.build("cnn-small(width=4)", task, 123)
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    study = small(weights=str(tmp_path / "w.safetensors"), metrics=["roar:no-retrain"])
    results = uproar.run(study, store=tmp_path / "store", jobs=1)
    assert len(list(Store(tmp_path / "store").keys("model"))) == 1
    plain = results.cells.query("fraction == 0")["accuracy"]
    expected = accuracy(predict(net, task.test.read(slice(None))), task.test.labels)
    np.testing.assert_allclose(plain, expected)


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs_are_refused(tmp_path, small, jobs):
    with pytest.raises(BadInput, match="--jobs must be at least 1"):
        uproar.run(small(), store=tmp_path / "store", jobs=jobs)
    assert not (tmp_path / "store").exists()


def test_a_disk_that_fills_stops_the_run_with_a_sentence_and_leaves_only_whole_files(tmp_path, small, monkeypatch):
    written = []
    real = os.replace

    def full(source, target):
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        written.append(target)
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match="No space left on device"):
        run_study(small(), tmp_path, 1)
    monkeypatch.undo()
    store = Store(tmp_path)
    for kind in ("model", "ranking", "cell"):
        for key in store.keys(kind):
            store.read(kind, key)
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]


def test_a_store_in_memory_is_for_one_process(small):
    assert len(list(plan(small(), Store("memory://plan")).jobs)) > 1
    with pytest.raises(BadInput, match="Only one process sees memory://x: use --jobs 1"):
        executor("memory://x", 2)


def test_an_object_store_gives_the_same_numbers(done, tmp_path, small, monkeypatch):
    """A stand-in for S3; the second time everything is there."""
    import objects  # noqa: F401  # which registers it

    monkeypatch.setenv("UPROAR_OBJECTS", str(tmp_path))
    study = small()
    pd.testing.assert_frame_equal(numbers(done[0]), numbers(uproar.run(study, store="s3://bucket/small", jobs=1)))
    assert plan(study, Store("s3://bucket/small")).jobs == []


def test_two_runs_on_one_store_at_once_disturb_each_other_in_nothing(done, tmp_path, small):
    """Both write every cell; each ends with all numbers, and nothing half-written or set aside is left."""
    script = textwrap.dedent(
        f"""
        import uproar
        from tests.study.conftest import SMALL
        found = uproar.run(SMALL, store={str(tmp_path)!r}, jobs=1)
        assert set(found.cells["status"]) == {{"done"}} and not found.lost
        assert not any("set aside" in notice for notice in found.notices), found.notices
        """
    )
    both = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    try:
        assert [process.wait(300) for process in both] == [0, 0]
    finally:
        for process in both:
            process.kill()
            process.wait()
    left = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix != ".safetensors"]
    assert [p.name for p in left] == ["FORMAT.json"]
    pd.testing.assert_frame_equal(numbers(done[0]), numbers(uproar.run(small(), store=tmp_path, jobs=1)))


class TestSerial(ExecutorTests):
    def make(self, root, study):
        return Serial(root)


class TestProcesses(ExecutorTests):
    def make(self, root, study):
        return Processes(root, 2)

    def test_a_killed_worker_is_replaced_and_its_job_done_again(self, tmp_path, small):
        study = small(seeds=1, recipe={"epochs": 60, "batch": 16})
        train = next(job for job in plan(study, Store(tmp_path)).jobs if job.step == "base_model")
        runner = Processes(str(tmp_path), 1)
        try:
            future = runner.submit(train)
            while not runner.pool:
                time.sleep(0.01)
            time.sleep(0.2)
            os.kill(runner.pool[0, False].process.pid, signal.SIGKILL)
            report = future.result()
        finally:
            runner.close()
        assert [type(outcome).__name__ for outcome in report.outcomes.values()] == ["Done"]

    def test_a_job_that_always_kills_its_worker_fails_with_the_signal(self, tmp_path, small):
        (tmp_path / "deadly.py").write_text(
            "import os, signal\ndef deadly(model, x, target):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        plugins = [str(tmp_path / "deadly.py")]
        study = small(estimators=["random", "deadly"], plugins=plugins, seeds=1, metrics=["roar"])
        results = uproar.run(study, store=tmp_path / "store", jobs=1)
        rows = results.cells.query("estimator == 'deadly' and fraction > 0")
        assert set(rows["status"]) == {"failed"}
        assert "SIGKILL" in rows["reason"].iloc[0]
        assert set(results.cells.query("estimator == 'random'")["status"]) == {"done"}

    def test_no_process_is_left_behind(self, tmp_path):
        runner = Processes(str(tmp_path), 2)
        processes = [runner.worker(number, plugins).process for number in (0, 1) for plugins in ("", "mine")]
        runner.close()
        assert all(process.poll() is not None for process in processes)


def test_a_killed_run_loses_only_what_was_under_way(tmp_path, small, done):
    """kill -9 of the parent after the first cells, then to the end: the same numbers as undisturbed.

    The workers are not sent anything: they end because their parent has.
    """
    script = textwrap.dedent(
        f"""
        import uproar
        from tests.study.conftest import SMALL
        uproar.run(SMALL, store={str(tmp_path)!r}, jobs=2)
        """
    )
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    while process.poll() is None and len(list(Store(tmp_path).keys("cell"))) < 2:
        time.sleep(0.02)
    started = children(process.pid)
    process.kill()
    process.wait()
    assert not left_after(started, 2)
    kept = list(Store(tmp_path).keys("cell"))
    assert len(kept) >= 2, "what was finished is there"
    for key in kept:
        Store(tmp_path).read("cell", key)
    forget()
    pd.testing.assert_frame_equal(numbers(done[0]), numbers(uproar.run(small(), store=tmp_path, jobs=1)))
