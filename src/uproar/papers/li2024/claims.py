"""Claims of Li et al. 2024 (TMLR), on soundness and completeness of feature attribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.registry import Test, claims_of, every, most
from uproar.data.registry import tasks
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.judgement import Decision, Measure, Range
from uproar.statistics.intervals import Interval, mean_interval

ENSEMBLES = ("sg(ig)", "sg_sq(ig)", "var(ig)")
RECT, POOLING = "rect(ig)", "pooling(ig)"
BLIND = 0.05
"""Curves nearer than this lie on each other; between the published .019 and .183."""
LITTLE = 0.02
"""A gain of two points counts as notable."""
NONE = 0.01
"""One point: a gain that is surely smaller counts as none."""


declare = claims_of("li2024", __file__)

# known answers

KNOWN_ANSWER = "known answer: 200 features whose sum is the class"
"""The table of the audit `values`."""


def _trial(better: str, worse: str, metric: str, **claimed: Unpack[Range]) -> Test:
    """The difference of two kinds of maps over trials; they share their data, which the interval leaves out."""

    def test(evidence: ClaimEvidence) -> Decision:
        rows = [evidence.row("values", KNOWN_ANSWER, map=name, metric=metric) for name in (better, worse)]
        gap = float(rows[0]["mean"] - rows[1]["mean"])
        n = int(rows[0]["trials"])
        half = 1.959964 * math.sqrt(sum(float(r["sd"]) ** 2 for r in rows) / n)
        what = f"{metric}: {better} minus {worse} map"
        return every(Measure(what, Interval(gap, gap - half, gap + half, n), "trials", **claimed), evidence="values")

    return test


declare("synthetic-completeness")(_trial("truth", "removed", "completeness", above=0.0))
declare("synthetic-introduced")(_trial("introduced", "truth", "completeness", above=0.0))
declare("synthetic-soundness")(_trial("truth", "introduced", "soundness", above=0.0))
declare("synthetic-removed")(_trial("removed", "truth", "soundness", above=-NONE, below=NONE))


# which metrics see values


def _distances(metrics: Sequence[str], **claimed: Unpack[Range]) -> Test:
    """The smallest distance of the curves, over estimators and the paper's three schemes, values cut to [0, 1].

    Where they are not cut, adding a constant changes no order, and a metric that goes by the order sees nothing.
    """

    def test(evidence: ClaimEvidence) -> Decision:
        table = evidence.table("values", "by estimator and scheme")
        parts = []
        for name in metrics:
            rows = table[(table["metric"] == name) & table["clipped"]]
            each = rows.groupby(["estimator", "scheme"], sort=False)["distance"].mean()
            interval = mean_interval(each.to_numpy(float))
            what = f"{name}: smallest distance between the curves"
            parts.append(Measure(what, interval, "estimators and schemes", **claimed))
        return every(*parts, evidence="values")

    return test


declare("values-seen")(_distances(("completeness", "soundness"), above=BLIND))
declare("values-unseen")(_distances(("deletion", "road"), below=BLIND))


# retraining on spurious cues


def _cue(what: str, **claimed: Unpack[Range]) -> Test:
    """A difference of accuracies with and without a cue."""

    def test(evidence: ClaimEvidence) -> Decision:
        row = evidence.row("spurious", "differences of accuracy", what=what)
        interval = Interval(float(row["mean"]), float(row["low"]), float(row["high"]), int(row["n"]))
        return every(Measure(what, interval, **claimed), evidence="spurious")

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
    """One map against others on images with a kind of marks, or without any; a single other must be there."""

    def test(evidence: ClaimEvidence) -> Decision:
        if kind_of_marks(evidence) != kind:
            wanted = f"semi-natural(..., kind={kind})" if kind else "a task without marks"
            raise NotApplicable(f"it is about {wanted}, not {evidence.task}")
        chosen = evidence.metric(metric)
        rivals = evidence.available(others) if len(others) > 1 else others
        return every(*(evidence.gap(chosen, name, other, **claimed) for other in rivals))

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
        return every(*(evidence.gap(chosen, name, "ig", **claimed) for name in evidence.available(names)))

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
        others = evidence.available(("extremal_perturbation", "deep_shap", "deep_lift", "ig", "input_iba"))
        return most(*(evidence.gap(metric, name, other, above=0.0) for other in others))

    return test


def _extremal(metric: str, **claimed: Unpack[Range]) -> Test:
    """Extremal perturbation against Grad-CAM and IBA."""

    def test(evidence: ClaimEvidence) -> Decision:
        chosen, names = evidence.metric(metric), evidence.available(("grad_cam", "iba"))
        return every(*(evidence.gap(chosen, "extremal_perturbation", name, **claimed) for name in names))

    return test


declare("cam-sounder")(_sounder("grad_cam"))
declare("iba-sounder")(_sounder("iba"))
declare("extremal-less-sound")(_extremal("soundness", below=0.0))
declare("more-complete")(_extremal("completeness", above=0.0))
