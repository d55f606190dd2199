"""Claims of Li et al. 2024 (TMLR), on soundness and completeness of feature attribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from uproar.audits.synthetic import DIFFERENCES
from uproar.audits.values import BLIND, CUT, DISTANCES
from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import Test, claims_of, every, most, part
from uproar.data.registry import tasks
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.claim_outcome import Decision, Measure, Range
from uproar.statistics.intervals import Interval

ENSEMBLES = ("sg(ig)", "sg_sq(ig)", "var(ig)")
RECT, POOLING = "rect(ig)", "pooling(ig)"
LITTLE = 0.02
"""A gain of two points counts as notable."""
NONE = 0.01
"""One point: a gain that is surely smaller counts as none."""


declare = claims_of("li2024", __file__)

# known answers


def _trial(better: str, worse: str, metric: str, **claimed: Unpack[Range]) -> Test:
    """The difference of two kinds of maps, trial by trial."""

    def test(evidence: ClaimEvidence) -> Decision:
        row = evidence.row("values", DIFFERENCES, metric=metric, map=better, other=worse)
        what = f"{metric}: {better} minus {worse} map"
        return every(Measure(what, _interval(row), "trials", **claimed), evidence="values")

    return test


def _interval(row: pd.Series, value: str = "mean") -> Interval:
    """The interval in a row of an audit's table."""
    n, df = int(row["n"]), float(row["df"])
    return Interval(float(row[value]), float(row["low"]), float(row["high"]), n, int(row.get("replicates", n)), df)


declare("synthetic-completeness")(_trial("truth", "removed", "completeness", above=0.0))
declare("synthetic-introduced")(_trial("introduced", "truth", "completeness", above=0.0))
declare("synthetic-soundness")(_trial("truth", "introduced", "soundness", above=0.0))
declare("synthetic-removed")(_trial("removed", "truth", "soundness", above=-NONE, below=NONE))


# which metrics see values


def _distances(metrics: Sequence[str], **claimed: Unpack[Range]) -> Test:
    """The smallest distance of the curves, mean over estimators and the paper's three schemes, values cut to [0, 1].

    Where they are not cut, adding a constant changes no order, and a metric that goes by the order sees nothing.
    """

    def test(evidence: ClaimEvidence) -> Decision:
        def distance(name: str) -> Measure:
            row = evidence.row("values", DISTANCES, metric=name, changes=CUT)
            what = f"{name}: smallest distance between the curves"
            return Measure(what, _interval(row, "distance"), "images", **claimed)

        return every(*(part(distance, name) for name in metrics), evidence="values")

    return test


declare("values-seen")(_distances(("completeness", "soundness"), above=BLIND))
declare("values-unseen")(_distances(("deletion", "road"), below=BLIND))


# retraining on spurious cues


def _cue(what: str, **claimed: Unpack[Range]) -> Test:
    """A difference of accuracies with and without a cue."""

    def test(evidence: ClaimEvidence) -> Decision:
        row = evidence.row("spurious", "differences of accuracy", what=what)
        return every(Measure(what, _interval(row), **claimed), evidence="spurious")

    return test


declare("cue-retrained")(_cue("retrained: with cue minus without", above=0.1))
declare("cue-original")(_cue("original: with cue minus without", above=-0.1, below=0.1))
declare("cue-clean")(_cue("clean test images: trained clean minus trained with the cue", above=0.1))


# marked images

OTHERS = ("ig", "grad_cam", "deep_shap")


def kind_of_marks(evidence: ClaimEvidence) -> str:
    """How the images of a task are marked: number, stripes or not at all."""
    call = parse(evidence.task)
    if call.name != "semi-natural":
        return ""
    return str(tasks[call.name].bind(**dict(call.options))["kind"])


def _on_marks(kind: str, metric: str, name: str, others: Sequence[str], **claimed: Unpack[Range]) -> Test:
    """One map against others on images with a kind of marks, or without any."""

    def test(evidence: ClaimEvidence) -> Decision:
        if kind_of_marks(evidence) != kind:
            wanted = f"semi-natural(..., kind={kind})" if kind else "a task without marks"
            raise NotApplicable(f"it is about {wanted}, not {evidence.task}")
        chosen = evidence.metric(metric)
        return every(*(part(evidence.gap, chosen, name, other, **claimed) for other in others))

    return test


declare("rect")(_on_marks("number", "attr_percent", RECT, [POOLING], above=0.0))
declare("pooling")(_on_marks("stripes", "attr_percent", POOLING, [RECT], above=0.0))
declare("rect-road-marked")(_on_marks("number", "road", RECT, OTHERS, above=0.0))
declare("rect-road-real")(_on_marks("", "road", RECT, OTHERS, below=0.0))


# benchmarks


def _ensembles(metric: str, names: Sequence[str] = ENSEMBLES, fill: str = "", **claimed: Unpack[Range]) -> Test:
    """Each ensemble against IG; deletion by accuracy is ROAD with the mean colour."""

    def test(evidence: ClaimEvidence) -> Decision:
        chosen = evidence.metric(metric, **({"fill": fill} if fill else {}))
        return every(*(part(evidence.gap, chosen, name, "ig", **claimed) for name in names))

    return test


declare("ensembles-sounder")(_ensembles("soundness", above=0.0))
declare("ensembles-completeness")(_ensembles("completeness", ENSEMBLES[1:], below=NONE))
declare("sg-completeness")(_ensembles("completeness", ENSEMBLES[:1], above=0.0))
declare("ensembles-road")(_ensembles("road", fill="linear", below=LITTLE))
declare("ensembles-road-lerf")(_ensembles("road_lerf", below=LITTLE))
declare("ensembles-deletion")(_ensembles("road", fill="mean", below=LITTLE))


def _sounder(name: str) -> Test:
    """Against each of the other methods."""

    def test(evidence: ClaimEvidence) -> Decision:
        metric = evidence.metric("soundness")
        deep = next(iter(evidence.available(("deep_shap", "deep_lift"))), "deep_shap")  # one method, with one baseline
        others = ("extremal_perturbation", deep, "ig", "input_iba")
        return most(*(part(evidence.gap, metric, name, other, above=0.0) for other in others))

    return test


def _extremal(metric: str, **claimed: Unpack[Range]) -> Test:
    """Extremal perturbation against Grad-CAM and IBA."""

    def test(evidence: ClaimEvidence) -> Decision:
        chosen = evidence.metric(metric)
        return every(*(part(evidence.gap, chosen, "extremal_perturbation", n, **claimed) for n in ("grad_cam", "iba")))

    return test


declare("cam-sounder")(_sounder("grad_cam"))
declare("iba-sounder")(_sounder("iba"))
declare("extremal-less-sound")(_extremal("soundness", below=0.0))
declare("more-complete")(_extremal("completeness", above=0.0))
