"""Claims of Li et al. 2024 (TMLR), on soundness and completeness of feature attribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from uproar.claims.base import claim, every, most
from uproar.claims.evidence import ClaimEvidence
from uproar.data.registry import tasks
from uproar.errors import NotApplicable
from uproar.expression import parse
from uproar.results.judgement import Decision, Measure, Range
from uproar.statistics.claim_intervals import mean_interval

ENSEMBLES = ("sg(ig)", "sg_sq(ig)", "var(ig)")
RECT, POOLING = "rect(ig)", "pooling(ig)"
BLIND = 0.05
"""Curves nearer than this lie on each other; between the published .019 and .183."""
LITTLE = 0.02
"""A gain of two points counts as notable."""
NONE = 0.01
"""One point: a gain that is surely smaller counts as none."""


# known answers


def _trial(evidence: ClaimEvidence, better: str, worse: str, metric: str, **claimed: Unpack[Range]) -> Decision:
    """The difference of two kinds of maps over trials; they share their data, which the interval leaves out."""
    title = "known answer: 200 features whose sum is the class"
    rows = [evidence.row("values", title, map=name, metric=metric) for name in (better, worse)]
    gap = float(rows[0]["mean"] - rows[1]["mean"])
    n = int(rows[0]["trials"])
    half = 1.959964 * math.sqrt(sum(float(r["sd"]) ** 2 for r in rows) / n)
    what = f"{metric}: {better} minus {worse} map"
    part = Measure(what, gap, gap - half, gap + half, n, "trials", **claimed)
    return every(part, evidence="values")


@claim(
    "li2024:synthetic-completeness",
    place="section 5.1, Figure 6",
    says="Where the answer is known, taking attribution away from the true map lowers completeness.",
    published="a clear gap (figure; the sentence in the text says the reverse)",
)
def synthetic_completeness(evidence: ClaimEvidence) -> Decision:
    """True maps against maps with attribution removed."""
    return _trial(evidence, "truth", "removed", "completeness", above=0.0)


@claim(
    "li2024:synthetic-introduced",
    place="section 5.1, Figure 6",
    says="Where the answer is known, introducing false attribution raises completeness.",
    published="a clear gap (figure; the sentence in the text says the reverse)",
)
def synthetic_introduced(evidence: ClaimEvidence) -> Decision:
    """Maps with attribution introduced against true ones."""
    return _trial(evidence, "introduced", "truth", "completeness", above=0.0)


@claim(
    "li2024:synthetic-soundness",
    place="section 5.1, Figure 6",
    says="Where the answer is known, introducing false attribution lowers soundness.",
    published="a clear gap (figure)",
)
def synthetic_soundness(evidence: ClaimEvidence) -> Decision:
    """True maps against maps with attribution introduced."""
    return _trial(evidence, "truth", "introduced", "soundness", above=0.0)


@claim(
    "li2024:synthetic-removed",
    place="section 5.1, Figure 6",
    says="Where the answer is known, taking attribution away leaves soundness as it is.",
    published="both 1 (figure)",
)
def synthetic_removed(evidence: ClaimEvidence) -> Decision:
    """Maps with attribution removed against true ones."""
    return _trial(evidence, "removed", "truth", "soundness", above=-NONE, below=NONE)


# which metrics see values


def _distances(evidence: ClaimEvidence, metrics: Sequence[str], **claimed: Unpack[Range]) -> Decision:
    """The smallest distance of the curves, over estimators and the paper's three schemes, values cut to [0, 1].

    Where they are not cut, adding a constant changes no order, and a metric that goes by the order sees nothing.
    """
    table = evidence.table("values", "by estimator and scheme")
    parts = []
    for name in metrics:
        rows = table[(table["metric"] == name) & table["clipped"]]
        each = rows.groupby(["estimator", "scheme"], sort=False)["distance"].mean()
        got = mean_interval(each.to_numpy(float))
        what = f"{name}: smallest distance between the curves"
        parts.append(Measure(what, got.value, got.low, got.high, got.n, "estimators and schemes", **claimed))
    return every(*parts, evidence="values")


@claim(
    "li2024:values-seen",
    place="section 5.2, Table 1",
    says="Completeness and soundness tell maps apart whose values were removed or introduced.",
    published="Hausdorff distances .503 ± .112 and .183 ± .046",
)
def values_seen(evidence: ClaimEvidence) -> Decision:
    """Distances of their curves."""
    return _distances(evidence, ("completeness", "soundness"), above=BLIND)


@claim(
    "li2024:values-unseen",
    place="section 5.2, Table 1",
    says="Deletion and ROAD, which go by the order alone, cannot tell such maps apart.",
    published="Hausdorff distances .019 ± .011 and .014 ± .009",
)
def values_unseen(evidence: ClaimEvidence) -> Decision:
    """Distances of their curves."""
    return _distances(evidence, ("deletion", "road"), below=BLIND)


# retraining on spurious cues


def _cue(evidence: ClaimEvidence, what: str, **claimed: Unpack[Range]) -> Decision:
    row = evidence.row("spurious", "differences of accuracy", what=what)
    part = Measure(
        what, float(row["mean"]), float(row["low"]), float(row["high"]), int(row["n"]), "replicates", **claimed
    )
    return every(part, evidence="spurious")


@claim(
    "li2024:cue-retrained",
    place="section 3.1, Figure 1",
    says="A hole whose place depends on the class raises the accuracy of a retrained network, though no less "
    "was removed.",
    published=".88 with the cue, .60 without (.66 in the caption)",
)
def cue_retrained(evidence: ClaimEvidence) -> Decision:
    """With the cue minus without."""
    return _cue(evidence, "retrained: with cue minus without", above=0.1)


@claim(
    "li2024:cue-original",
    place="section 3.1, Figure 1",
    says="The original network gains little by the same cue.",
    published=".29 with the cue, .24 without",
)
def cue_original(evidence: ClaimEvidence) -> Decision:
    """With the cue minus without."""
    return _cue(evidence, "original: with cue minus without", above=-0.1, below=0.1)


@claim(
    "li2024:cue-clean",
    place="appendix C, Figure 10",
    says="A network trained on images with a cue at their edge fails on clean ones.",
    published=".322 against .887",
)
def cue_clean(evidence: ClaimEvidence) -> Decision:
    """Trained clean minus trained with the cue, on clean images."""
    return _cue(evidence, "clean test images: trained clean minus trained with the cue", above=0.1)


# marked images


def kind_of_marks(evidence: ClaimEvidence) -> str:
    """How the images of a task are marked: number, stripes or not at all."""
    call = parse(evidence.task)
    if call.name != "semi-natural":
        return ""
    return str(tasks[call.name].bind(**dict(call.options))["kind"])


def _on(evidence: ClaimEvidence, kind: str) -> None:
    if kind_of_marks(evidence) != kind:
        wanted = f"semi-natural(..., kind={kind})" if kind else "a task without marks"
        raise NotApplicable(f"it is about {wanted}, not {evidence.task}")


@claim(
    "li2024:rect",
    place="section 3.2, Figure 2",
    says="Where a number in a rectangle marks the class, Rect puts more of its attribution on the mark than Pooling.",
    published="Attr % .92 against .60",
)
def rect(evidence: ClaimEvidence) -> Decision:
    """Attr % on number marks."""
    _on(evidence, "number")
    return every(evidence.gap(evidence.metric("attr_percent"), RECT, POOLING, above=0.0))


@claim(
    "li2024:pooling",
    place="section 3.2, Figure 2",
    says="Where stripes mark the class, Pooling puts more of its attribution on the mark than Rect.",
    published="Attr % .93 against .31",
)
def pooling(evidence: ClaimEvidence) -> Decision:
    """Attr % on stripes."""
    _on(evidence, "stripes")
    return every(evidence.gap(evidence.metric("attr_percent"), POOLING, RECT, above=0.0))


OTHERS = ("ig", "grad_cam", "deep_shap")


@claim(
    "li2024:rect-road-marked",
    place="section 3.2, Figure 3",
    says="By ROAD, Rect is the best map where a number marks the class.",
    published="the lowest curve (figure)",
)
def rect_road_marked(evidence: ClaimEvidence) -> Decision:
    """Rect against the others on number marks."""
    _on(evidence, "number")
    road = evidence.metric("road")
    return every(*(evidence.gap(road, RECT, name, above=0.0) for name in evidence.there(OTHERS)))


@claim(
    "li2024:rect-road-real",
    place="section 3.2, Figure 3",
    says="By ROAD, Rect is the worst map on real images.",
    published="the highest curve (figure)",
)
def rect_road_real(evidence: ClaimEvidence) -> Decision:
    """Rect against the others on images without marks."""
    _on(evidence, "")
    road = evidence.metric("road")
    return every(*(evidence.gap(road, RECT, name, below=0.0) for name in evidence.there(OTHERS)))


# benchmarks


def _ensembles(
    evidence: ClaimEvidence, metric: str, names: Sequence[str] = ENSEMBLES, **claimed: Unpack[Range]
) -> list[Measure]:
    return [evidence.gap(metric, name, "ig", **claimed) for name in evidence.there(names)]


@claim(
    "li2024:ensembles-sounder",
    place="section 5.3, Figures 8 and 15",
    says="Ensembles over noise (SG, SG-SQ, VAR) make integrated gradients sounder.",
    published="higher curves (figure)",
)
def ensembles_sounder(evidence: ClaimEvidence) -> Decision:
    """Each ensemble against IG."""
    return every(*_ensembles(evidence, evidence.metric("soundness"), above=0.0))


@claim(
    "li2024:ensembles-completeness",
    place="section 5.3, Figures 8 and 15",
    says="Squared ensembles and variances do not make integrated gradients more complete.",
    published="only IG-SG is more complete (figure)",
)
def ensembles_completeness(evidence: ClaimEvidence) -> Decision:
    """SG-SQ and VAR against IG."""
    names = ENSEMBLES[1:]
    return every(*_ensembles(evidence, evidence.metric("completeness"), names, below=NONE))


@claim(
    "li2024:sg-completeness",
    place="section 5.3, Figures 8 and 15",
    says="Averaging over noise (SG) makes integrated gradients more complete.",
    published="the only ensemble that is more complete (figure)",
)
def sg_completeness(evidence: ClaimEvidence) -> Decision:
    """SG against IG."""
    return every(*_ensembles(evidence, evidence.metric("completeness"), ENSEMBLES[:1], above=0.0))


@claim(
    "li2024:ensembles-road",
    place="appendix G.4, Figure 15",
    says="Under ROAD, most relevant first, ensembles have no notable advantage.",
    published="no notable advantage (figure)",
)
def ensembles_road(evidence: ClaimEvidence) -> Decision:
    """Each ensemble against IG."""
    return every(*_ensembles(evidence, evidence.metric("road", fill="linear"), below=LITTLE))


@claim(
    "li2024:ensembles-road-lerf",
    place="appendix G.4, Figure 15",
    says="Under ROAD, least relevant first, ensembles have no notable advantage.",
    published="no notable advantage (figure)",
)
def ensembles_road_lerf(evidence: ClaimEvidence) -> Decision:
    """Each ensemble against IG."""
    return every(*_ensembles(evidence, evidence.metric("road_lerf"), below=LITTLE))


@claim(
    "li2024:ensembles-deletion",
    place="appendix G.4, Figure 15",
    says="Under deletion by accuracy, ensembles have no notable advantage.",
    published="no notable advantage (figure)",
)
def ensembles_deletion(evidence: ClaimEvidence) -> Decision:
    """Each ensemble against IG; their deletion is ROAD with the mean colour."""
    return every(*_ensembles(evidence, evidence.metric("road", fill="mean"), below=LITTLE))


def _sounder(evidence: ClaimEvidence, name: str) -> Decision:
    metric = evidence.metric("soundness")
    others = evidence.there(("extremal_perturbation", "deep_shap", "deep_lift", "ig", "input_iba"))
    return most(*(evidence.gap(metric, name, other, above=0.0) for other in others))


@claim(
    "li2024:cam-sounder",
    place="section 5.3, Figure 9",
    says="Grad-CAM is sounder than most other methods.",
    published="among the highest curves (figure)",
)
def cam_sounder(evidence: ClaimEvidence) -> Decision:
    """Against each of the others."""
    return _sounder(evidence, "grad_cam")


@claim(
    "li2024:iba-sounder",
    place="section 5.3, Figure 9",
    says="IBA is sounder than most other methods.",
    published="among the highest curves (figure)",
)
def iba_sounder(evidence: ClaimEvidence) -> Decision:
    """Against each of the others."""
    return _sounder(evidence, "iba")


@claim(
    "li2024:extremal-less-sound",
    place="appendix B",
    says="Extremal perturbation is less sound than Grad-CAM and IBA.",
    published="lower soundness",
)
def extremal_less_sound(evidence: ClaimEvidence) -> Decision:
    """Against each of the two."""
    metric = evidence.metric("soundness")
    names = evidence.there(("grad_cam", "iba"))
    return every(*(evidence.gap(metric, "extremal_perturbation", n, below=0.0) for n in names))


@claim(
    "li2024:more-complete",
    place="section 5.3, Figure 9",
    says="Extremal perturbation is more complete than Grad-CAM and IBA.",
    published="higher curves (figure)",
)
def more_complete(evidence: ClaimEvidence) -> Decision:
    """Against each of the two."""
    metric = evidence.metric("completeness")
    names = evidence.there(("grad_cam", "iba"))
    return every(*(evidence.gap(metric, "extremal_perturbation", n, above=0.0) for n in names))
