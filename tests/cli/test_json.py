"""`--json`: standard output is one JSON object whose tables are those of the CSV files."""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from typer.main import get_command

from tests.cli.conftest import NETWORK, STUDY
from uproar.cli.app import _exit_code, app
from uproar.cli.ls import LISTED
from uproar.cli.screen import as_json
from uproar.statistics.design import BASELINES


def commands(group, before=()):
    for name, one in group.commands.items():
        yield from commands(one, (*before, name)) if hasattr(one, "commands") else [((*before, name), one)]


def test_every_command_has_it():
    for words, command in commands(get_command(app)):
        assert "--json" in {option for parameter in command.params for option in parameter.opts}, words


def printed(capsys, *words):
    """The object that a command prints, with its exit code; anything else on standard output is an error."""
    capsys.readouterr()
    code = _exit_code([str(word) for word in words])
    said = capsys.readouterr()
    assert said.out, (code, said.err)
    return json.loads(said.out), code


def test_the_tables_of_a_run_are_those_of_its_csv_files(tiny_run, tmp_path, capsys):
    made = tiny_run.copy(tmp_path / "run")
    output, code = printed(capsys, "run", *STUDY, "--json", "--out", made)
    assert code == 0 and output["report"] == str(made / "report.html")
    tables = {file.stem: pd.read_csv(file) for file in made.glob("*.csv")}
    assert {"verdicts", "comparisons", "results", "scores", "metric_values", "negative_controls"} <= set(tables)
    for name, table in tables.items():
        read = pd.read_csv(io.StringIO(pd.DataFrame(output[name], columns=table.columns).to_csv(index=False)))
        pd.testing.assert_frame_equal(read, table, check_dtype=False, rtol=0, atol=0)
        assert all(list(row) == list(table.columns) for row in output[name])
    assert {row["estimator"] for row in output["verdicts"]} == {"grad", "sobel"}
    (answer,) = output["answers"]
    assert answer["task"].startswith("planted") and answer["sentence"]


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("report RUN --claims hooker2019", {"claims", "verdicts", "answers", "report"}),
        ("compare RUN RUN", {"settings", "values", "verdicts", "matters"}),
        ("compare RUN grad", {"comparisons"}),
        ("audit RUN --dry-run --audits blur", {"planned"}),
        ("store verify RUN", {"kinds", "damaged", "store"}),
        ("store clean RUN", {"store", "bytes", "removable_bytes", "removable", "removed"}),
        ("ls", {"kinds"}),
        ("ls versions", {"versions"}),
        ("explain --layers", {"layers"}),
        ("run hooker2019-laptop --dry-run --task not_there", None),
        ("check grad --model cnn-small(width=2)", {"clauses"}),
    ],
)
def test_commands_that_print_tables_print_them_as_json(tiny_run, tmp_path, capsys, line, keys):
    made = tiny_run.copy(tmp_path / "run")
    words = [word.replace("RUN", str(made)) for word in line.split()]
    if keys is None:
        assert _exit_code([*words, "--json"]) == 2
        said = capsys.readouterr()
        assert not said.out and said.err.startswith("Error: ")
        return
    output, code = printed(capsys, *words, "--json")
    assert code == 0 and keys <= set(output)


def test_scores_and_studies_as_json(tmp_path, capsys):
    output, code = printed(
        capsys,
        "score",
        *NETWORK,
        "--estimators",
        "grad",
        "--metrics",
        "deletion",
        "--json",
        "--out",
        tmp_path / "scores",
    )
    assert code == 0 and {row["method"] for row in output["scores"]} == {*BASELINES, "grad"}
    assert list(output["scores"][0]) == list(pd.read_csv(tmp_path / "scores" / "scores.csv").columns)
    output, code = printed(capsys, "run", *STUDY, "--json", "--dry-run", "--out", tmp_path / "run")
    assert code == 0 and output["cells"] > 0 and output["seconds"] > 0
    assert {job["kind"]: job["jobs"] for job in output["jobs"]}["base_model"] == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", list(LISTED))
def test_lists_as_json_have_a_row_per_name(capsys, kind):
    output, code = printed(capsys, "ls", kind, "--json")
    names = {tuple(row.values())[:2] for row in output[kind]}  # in groups of their own
    assert code == 0 and len(names) == len(output[kind]) > 2
    assert all(" " not in column for row in output[kind] for column in row)


def test_numbers_of_arrays_are_plain_and_what_json_lacks_is_null():
    frame = pd.DataFrame({"n": np.array([1, 2]), "value": [np.inf, 0.5], "side": np.array([True, False])})
    assert as_json(frame) == [{"n": 1, "value": None, "side": True}, {"n": 2, "value": 0.5, "side": False}]
    assert json.dumps(as_json({"f": np.float32(0.5), "i": np.int64(3)})) == '{"f": 0.5, "i": 3}'
