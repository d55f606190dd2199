"""A report is drawn again if anything it shows has changed, and only then."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from uproar.report.fingerprint import RECORD, digest_of, write_once


@pytest.fixture
def drawn():
    """Counts how often a report of two files is drawn."""

    class Drawn:
        times = 0

        def __call__(self):
            self.times += 1
            return {"figures/a.svg": b"<svg/>", "report.html": b"<html/>"}

    return Drawn()


@pytest.fixture
def results(plain_case):
    return plain_case


def test_the_same_results_are_drawn_once(tmp_path, drawn, results):
    for _ in range(2):
        assert write_once(results, drawn, tmp_path) == tmp_path
    assert drawn.times == 1
    later = replace(results, provenance={**results.provenance, "written": "tomorrow"})
    write_once(later, drawn, tmp_path)
    assert drawn.times == 1


@pytest.mark.parametrize("spoil", ["gone", "edited", "record"])
def test_a_file_that_is_not_as_it_was_written_is_drawn_again(tmp_path, drawn, results, spoil):
    write_once(results, drawn, tmp_path)
    figure = tmp_path / "figures" / "a.svg"
    if spoil == "gone":
        figure.unlink()
    elif spoil == "edited":
        figure.write_text("<svg>mine</svg>")
    else:
        (tmp_path / RECORD).write_text('["not a record"]')
    write_once(results, drawn, tmp_path)
    assert drawn.times == 2
    assert figure.read_bytes() == b"<svg/>"
    assert set(json.loads((tmp_path / RECORD).read_text())["files"]) == {"figures/a.svg", "report.html"}


def test_every_part_of_the_results_counts(results):
    table = results.table.copy()
    table.loc[table.index[-1], "accuracy"] += 1e-12
    picture = results.pictures[0]
    image = picture.image.copy()
    image.flat[0] ^= 1
    changed = [
        replace(results, table=table),
        replace(results, table=results.table.iloc[:-1]),
        replace(results, notices=(*results.notices, "one more")),
        replace(results, study={**results.study, "fill": "blur"}),
        replace(results, pictures=(replace(picture, image=image), *results.pictures[1:])),
        replace(results, work={"maps": 1.0}),
    ]
    digests = {digest_of(each) for each in (results, *changed)}
    assert len(digests) == len(changed) + 1
    assert digest_of(replace(results, study=json.loads(json.dumps(dict(results.study))))) == digest_of(results)


def test_results_that_hold_an_unknown_object_are_always_drawn(tmp_path, drawn, results):
    odd = replace(results, provenance={"x": object()})
    for _ in range(2):
        write_once(odd, drawn, tmp_path)
    assert drawn.times == 2
    assert digest_of(odd) == ""
