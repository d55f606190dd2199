import pytest

from uproar import Study, study_of
from uproar.cli.app import _exit_code
from uproar.errors import BadInput, UnknownName, UproarError
from uproar.study.audit import audit_requests
from uproar.study.collect import provenance
from uproar.study.grid import accuracies_of, check_study, evaluations_of, scores_of, settings_of
from uproar.study.run import run_study

GOOD = """
task = "digits"
estimators = ["grad", "sg(grad)"]
fractions = [0.1, 0.99]
seeds = 3

[recipe]
epochs = 2
"""


def test_a_file_becomes_a_study_named_after_it(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    study = study_of(path)
    assert study.name == "mine"
    assert study.seeds == (0, 1, 2)
    assert study.fractions == (0.1, 0.99)
    assert study.recipe.epochs == 2
    assert [chain.name for chain in study.chains] == ["random", "grad", "sg(grad)"]


def test_the_default_study_is_the_demonstration():
    study = Study()
    assert study.fractions == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert len(study.chains) == 14
    methods = {chain.name for chain in study.chains if chain.role == "method"}
    assert methods >= {"saliency", "smoothgrad", "lrp", "occlusion", "grad_input", "grad_cam"}
    assert not methods & {"grad", "sg(grad)"}, "people rank by the size of a gradient"
    assert len(study.seeds) == 5


def test_a_study_survives_json():
    study = Study(estimators=("grad",), seeds=(4, 9))
    assert study_of(study.model_dump(mode="json")) == study


@pytest.mark.parametrize(
    ("line", "replacement", "sentence"),
    [
        (
            "fractions = [0.1, 0.99]",
            "fractoins = [0.1]",
            r"mine.toml, line 4: a study has no setting 'fractoins'. Did you mean 'fractions'",
        ),
        ("epochs = 2", "epoch = 2", r"mine.toml, line 8: a recipe has no setting 'epoch'. Did you mean 'epochs'"),
        ("seeds = 3", "epochs = 3", r"line 5: a study has no setting 'epochs'. It belongs below \[recipe\]. Known"),
        (
            "epochs = 2",
            'target = "label"',
            "line 8: a recipe has no setting 'target'. It belongs above the tables, at the top of",
        ),
        ("epochs = 2", "epochs = 0", r"line 8: recipe.epochs must be at least 1, not 0"),
        ("[recipe]", "[resources]\ncpu = 1\n[recipe]", r"line 8: \[resources\] has no setting 'cpu'"),
        ("[recipe]", "[resources]\ncpus = 0\n[recipe]", "resources.cpus must be greater than 0"),
        ("[recipe]", "[resources]\ngpus = 1.5\n[recipe]", "resources.gpus is a whole number or a"),
        ("seeds = 3", "seeds = 0", "line 5: seeds must be at least 1, not 0"),
        ("seeds = 3", "seeds = [1, 1]", "seed 1 is listed twice"),
        ("seeds = 3", 'seeds = "x"', "line 5: seeds is a number of replicates, such as 5, or a list of seeds, not 'x'"),
        ("fractions = [0.1, 0.99]", "fractions = [0.1, 1.5]", "between 0 and 1, not 1.5"),
        ("fractions = [0.1, 0.99]", "fractions = [0.1, 0.1]", "fraction 0.1 is listed twice"),
        ("fractions = [0.1, 0.99]", "fractions = []", "at least one fraction"),
        ('task = "digits"', 'task = "digit"', "No task is called 'digit'. Did you mean 'digits'"),
        ('task = "digits"', 'task = "digits"\nfill = "men"', "No fill is called 'men'"),
        ('task = "digits"', 'task = "digits"\nmodel = "cnn"', "No model is called 'cnn'"),
        ('task = "digits"', 'task = "digits"\nmetrics = ["raor"]', "No metric is called 'raor'. Did you mean 'roar'"),
        ('task = "digits"', 'task = "digits"\nname = "../x"', "name has letters"),
        ('task = "digits"', 'task = "digits"\nplugins = ["none.py"]', "no file"),
        ('"sg(grad)"', '"grad()"', "estimator grad is listed twice"),
        ('task = "digits"', "task = ", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_that_says_where(tmp_path, line, replacement, sentence):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(line, replacement))
    with pytest.raises(UproarError, match=sentence) as caught:
        study_of(path)
    assert "\n" not in str(caught.value)


def test_resources_are_no_part_of_any_result():
    one, other = Study(), Study(resources={"cpus": 4, "gpus": 0.5})
    assert settings_of(one)[0].base_model(0) == settings_of(other)[0].base_model(0)
    assert provenance(one, {})["study"] == provenance(other, {})["study"]


def test_files_named_in_a_study_are_looked_for_beside_it(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef f(classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))"
    )
    (tmp_path / "mine.py").write_text("def brightness2(model, x, target): return x.sum(1)")
    (tmp_path / "s.toml").write_text('model = "net.py:f"\nplugins = ["mine.py"]\nestimators = ["brightness2"]')
    monkeypatch.chdir("/")
    study = study_of(tmp_path / "s.toml")
    assert study.models == (str(tmp_path / "net.py:f"),)
    assert [chain.name for chain in study.chains] == ["random", "brightness2"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("1 / 0", "bad.py raises when it is loaded: ZeroDivisionError"),
        ("x = 3", "bad.py declares nothing: .* task, fill, model, audit or recipe"),
        ("def grad(model, x, target): return x", "would replace"),
        ("import uproar\n@uproar.estimator(passes=1)\ndef f(model, x, klass): return x", "takes model, x, target"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_refused(tmp_path, content, sentence):
    (tmp_path / "bad.py").write_text(content)
    with pytest.raises(BadInput, match=sentence):
        Study(plugins=(str(tmp_path / "bad.py"),))


def test_objects_and_dicts_are_checked_like_files():
    with pytest.raises(UnknownName, match="Did you mean 'grad'"):
        Study(estimators=("grda",))
    with pytest.raises(BadInput, match="Did you mean 'fractions'"):
        study_of({"fraction": [0.1]})


@pytest.mark.parametrize(
    ("fractions", "sentence"),
    [
        ([0.3, 0.30000000000000004], r"The fraction 0.30000000000000004 means 19 of the 64 pixels .* as 0.3 does"),
        ([1e-12], r"The fraction 1e-12 means 0 of the 64 pixels .* as 0.0 does"),
        ([0.999], r"The fraction 0.999 means 64 of the 64 pixels .* as 1.0 does"),
    ],
)
def test_fractions_that_the_pixels_cannot_tell_apart_are_refused_before_anything_is_trained(
    tmp_path, small, fractions, sentence, capsys
):
    study = small(fractions=fractions)
    with pytest.raises(BadInput, match=sentence):
        run_study(study, tmp_path / "store", jobs=1)
    assert not list(tmp_path.iterdir())
    text = ["--fractions", ",".join(map(repr, fractions)), "--task", study.tasks[0]]
    assert _exit_code(["run", "--dry-run", *text, "--out", str(tmp_path / "out")]) == 2
    assert "choose fractions that are further apart" in capsys.readouterr().err


def test_fractions_at_the_ends_are_those_of_nothing_and_of_everything(tmp_path, small):
    check_study(small(fractions=[0, 0.5, 1]))
    check_study(small(metrics=["deletion"], fractions=[1e-12]))


def test_the_baseline_is_the_mean_of_several_random_rankings():
    """About the square root of the number of estimators, unless the study says how many; `random` is the first."""
    names = ["grad", "ig", "sobel"]
    drawn = [chain.name for chain in Study(estimators=names).baseline_chains]
    assert drawn == ["random", "random(draw=1)"]
    study = Study(estimators=["random", *names], random_rankings=3)
    assert [chain.name for chain in study.chains] == ["random", *names]
    assert [chain.name for chain in study.all_chains][-2:] == ["random(draw=1)", "random(draw=2)"]
    assert len(Study().baseline_chains) == 4 and len(Study(estimators=["grad"]).baseline_chains) == 1
    (setting,) = settings_of(study)
    cells = accuracies_of(study, setting)
    assert sum(cell.estimator == "random(draw=2)" for cell in cells) == sum(c.estimator == "grad" for c in cells) > 0
    judged = {cell.estimator for cell in evaluations_of(study, setting)}
    assert judged == {"random", *names, "centre", "brightness", "block_random"}, "an evaluator asks one random ranking"


def test_a_random_ranking_of_the_baseline_is_no_estimator_beside_it():
    with pytest.raises(BadInput, match=r"random\(draw=1\) is one of the 2 random rankings .* draw=2 or more"):
        Study(estimators=["grad", "random(draw=1)"], random_rankings=2)
    assert Study(estimators=["grad", "random(draw=2)"], random_rankings=2)
    with pytest.raises(BadInput, match="random_rankings"):
        Study(random_rankings=0)


def test_audits_share_the_rankings_of_the_study_where_that_costs_nothing():
    study = study_of({"estimators": ["grad", "ig", "sobel"], "metrics": ["roar"], "random_rankings": 3})
    (request,) = audit_requests(study, ["blur"])
    counts = {name: len(part.baseline_chains) for name, part in request.studies.items()}
    assert counts.pop("study") == 3 and set(counts.values()) == {3}
    (request,) = audit_requests(study, ["stability"])
    for name, part in request.studies.items():
        same = part.fill == study.fill and set(part.metrics) <= set(study.metrics) and part.tasks == study.tasks
        assert len(part.baseline_chains) == (3 if same else 1), name


def test_a_study_that_removes_nothing_is_refused():
    with pytest.raises(BadInput, match="removes nothing: give at least one above 0"):
        study_of({"name": "x", "fractions": [0]})
    assert study_of({"name": "x", "fractions": [0, 0.5]}).fractions == (0, 0.5)


def test_metrics_and_evaluators_judge_the_same_baselines_which_nobody_retrains_for():
    study = Study(estimators=["grad"], metrics=["evaluator", "roar", "deletion"])
    (setting,) = settings_of(study)
    scored = {cell.estimator for cell in scores_of(study, setting) if not cell.check}
    judged = {cell.estimator for cell in evaluations_of(study, setting)}
    assert scored == judged == {"random", "grad", "block_random", "centre", "brightness", "sobel"}
    assert {cell.estimator for cell in accuracies_of(study, setting)} == {"random", "grad"}
    alone = study.with_changes(baselines=[])
    assert {unit.estimator for unit in scores_of(alone, setting)} == {"random", "grad"}
    with pytest.raises(BadInput, match="saliency is none"):
        Study(baselines=["saliency"])
