"""Claims of Vandersmissen and Oramas 2023, "On the coherency of quantitative evaluation of visual explanations"."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import pandas as pd

from uproar.claims.evidence import ClaimEvidence
from uproar.claims.names import gain_limits
from uproar.claims.registry import Test, claims_of, every, if_applicable, most, part
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.results.claim_outcome import Decision, Measure, Missing, Range

SPARSE = ("ig", "sg(grad)", "occlusion")
FINE = (*SPARSE, "lrp")
BLURRED = ("ig", "sg(grad)")
BLURS = ("coarse", "gaussian")
"""The paper's blur and a plain one; the first that a study has is taken."""
COARSE = ("rise", "ada_sise", "grad_cam", "tame")
AGREE = 0.7
"""The usual least correlation of two forms of one test; the least published mean over methods is .750."""
HIGH = 0.5
"""A correlation that is further from zero counts as high; the least published mean is .64."""
WEAK = 0.2
"""Correlations within this of zero count as weak; the furthest published mean of the pointing game is -.16."""
SAME_HITS = 0.05
"""Five points of the pointing game count as negligible."""

declare = claims_of("vandersmissen2023", __file__)

Metric = Callable[[ClaimEvidence], str]
"""Finds the study's name of a metric."""

MAIN = {"unit": "pixel", "fill": "mean"}
"""The paper's main setting of insertion and deletion."""


def insertion(evidence: ClaimEvidence, **options: str) -> str:
    """The study's insertion, by pixels and from the mean colour unless said otherwise."""
    return evidence.metric("insertion", **(MAIN | options))


def deletion(evidence: ClaimEvidence, **options: str) -> str:
    """The study's deletion, by pixels and to the mean colour unless said otherwise."""
    return evidence.metric("deletion", **(MAIN | options))


def road(evidence: ClaimEvidence) -> str:
    """ROAD by the probability of the class, as insertion and deletion go, else by accuracy."""
    by_probability = if_applicable(lambda: evidence.metric("road", by="probability"), "")
    return by_probability or evidence.metric("road")


def _first(evidence: ClaimEvidence, metric: str, choices: Sequence[dict[str, Any]], missing: str) -> str:
    """The study's metric with the first of some options that it has."""
    for options in choices:
        if name := if_applicable(partial(evidence.metric, metric, **options), ""):
            return name
    raise NotApplicable(f"the study has no {missing}")


def average_drop(evidence: ClaimEvidence) -> str:
    """Average drop with the values of the maps."""
    choices = [{"binarise": None}, {"threshold": None, "percentile": None}]
    return _first(evidence, "average_drop", choices, "metric average_drop")


def binary_drop(evidence: ClaimEvidence, level: float = 0.5) -> str:
    """Average drop with maps that were made binary at their median, or at another level."""
    choices = [{"binarise": level}, {"percentile": 100 * level}]
    return _first(evidence, "average_drop", choices, f"average_drop(binarise={level:g})")


def pointing_game(evidence: ClaimEvidence) -> str:
    """The study's pointing game."""
    return evidence.metric("pointing_game")


def methods(evidence: ClaimEvidence, *metrics: str) -> list[str]:
    """The estimators beside random with values of all these metrics; blurred versions are no methods of their own."""
    return [name for name in evidence.scored_by(*metrics) if not read_chain(name).filters]


def _correlation(evidence: ClaimEvidence, a: str, b: str, **claimed: Unpack[Range]) -> Measure:
    return evidence.correlation(a, b, methods(evidence, a, b), **claimed)


# do metrics agree? Spearman's correlation over images, mean over estimators


def _correlated(a: Metric, b: Metric, **claimed: Unpack[Range]) -> Test:
    return lambda evidence: every(_correlation(evidence, a(evidence), b(evidence), **claimed))


declare("insertion-deletion")(_correlated(insertion, deletion, below=-HIGH))
declare("deletion-road")(_correlated(deletion, road, above=HIGH))
declare("insertion-road")(_correlated(insertion, road, below=-HIGH))
declare("road-blur-deletion")(_correlated(road, lambda evidence: deletion(evidence, fill="blur"), above=HIGH))


@declare("pointing")
def pointing(evidence: ClaimEvidence) -> Decision:
    """Point-biserial correlations over images, mean over estimators."""
    game = pointing_game(evidence)
    others = [insertion(evidence), deletion(evidence), road(evidence), average_drop(evidence)]
    pairs = [(m, game, methods(evidence, m, game)) for m in others]
    return every(*(part(evidence.correlation, *pair, binary=True, above=-WEAK, below=WEAK) for pair in pairs))


SETTINGS = tuple(itertools.product(("pixel", "region"), ("mean", "blur", "uniform")))
"""Units and fills of insertion and deletion."""


def settings_of(evidence: ClaimEvidence, kind: str) -> dict[str, str]:
    """The study's metric of a kind by setting; those it has."""
    names = {
        f"{fill} + {unit}": if_applicable(partial(evidence.metric, kind, unit=unit, fill=fill), "")
        for unit, fill in SETTINGS
    }
    return {setting: name for setting, name in names.items() if name}


def _settings_agree(kind: str) -> Test:
    """Every two settings."""

    def test(evidence: ClaimEvidence) -> Decision:
        there = settings_of(evidence, kind)
        pairs = itertools.combinations(dict.fromkeys(there.values()), 2)
        lacking = [f"{fill} + {unit}" for unit, fill in SETTINGS if f"{fill} + {unit}" not in there]
        missing = [Missing(f"the study has no {kind} by {setting}") for setting in lacking]
        return every(*(_correlation(evidence, a, b, above=AGREE) for a, b in pairs), *missing)

    return test


declare("insertion-settings")(_settings_agree("insertion"))
declare("deletion-settings")(_settings_agree("deletion"))


# sparse and coarse maps


def blurred_forms(evidence: ClaimEvidence) -> dict[str, str]:
    """What each of IG and SmoothGrad is called blurred, where the study has both; the paper's blur comes first."""
    forms = {n: evidence.available([f"{how}({n})" for how in BLURS]) for n in evidence.available(BLURRED)}
    return {name: blurred[0] for name, blurred in forms.items() if blurred}


def _blurring(metric: Metric, **claimed: Unpack[Range]) -> Test:
    """Blurred against plain."""

    def test(evidence: ClaimEvidence) -> Decision:
        name = metric(evidence)
        pairs = blurred_forms(evidence)
        missing = [
            Missing(f"the study has no {plain} with and without a blur") for plain in BLURRED if plain not in pairs
        ]
        return every(*(part(evidence.gap, name, blurred, n, **claimed) for n, blurred in pairs.items()), *missing)

    return test


declare("blur-insertion")(_blurring(insertion, above=0.0))
declare("blur-drop")(_blurring(average_drop, above=0.0))
declare("blur-deletion")(_blurring(deletion, below=0.0))
declare("blur-pointing")(_blurring(pointing_game, above=-SAME_HITS, below=SAME_HITS))


def _coarse_against_fine(metric: Metric, **claimed: Unpack[Range]) -> Test:
    """Every coarse map against every fine one."""

    def test(evidence: ClaimEvidence) -> Decision:
        name = metric(evidence)
        pairs = itertools.product(COARSE, FINE)
        return most(*(part(evidence.gap, name, coarse, fine, **claimed) for coarse, fine in pairs))

    return test


declare("coarse-insertion")(_coarse_against_fine(insertion, above=0.0))
declare("coarse-drop")(_coarse_against_fine(average_drop, above=0.0))
declare("coarse-deletion")(_coarse_against_fine(deletion, below=0.0))


def _regions(kind: str, **claimed: Unpack[Range]) -> Test:
    """Regions against pixels, image by image: each sparse map, and all of them together against the coarse ones."""

    def test(evidence: ClaimEvidence) -> Decision:
        region, pixel = (evidence.metric(kind, unit=unit, fill="mean") for unit in ("region", "pixel"))

        def gain(names: Sequence[str]) -> pd.DataFrame:
            own = [evidence.estimator(n) for n in names]
            gains = [evidence.per_replicate(region, n) - evidence.per_replicate(pixel, n) for n in own]
            return sum(gains[1:], start=gains[0]) / len(gains)

        sparse, coarse = evidence.available(SPARSE), evidence.available(COARSE)
        parts = [part(evidence.between, region, pixel, n, **claimed) for n in SPARSE]
        if sparse and coarse:
            what = f"{region} minus {pixel}: {len(sparse)} sparse against {len(coarse)} coarse maps"
            limits = gain_limits(region, pixel)
            parts.append(evidence.over_images(what, gain(sparse), minus=gain(coarse), limits=limits, **claimed))
        return every(*parts, *evidence.absent(COARSE))

    return test


declare("region-insertion")(_regions("insertion", above=0.0))
declare("region-deletion")(_regions("deletion", below=0.0))


# average drop with binary maps


@declare("binary-coherent")
def binary_coherent(evidence: ClaimEvidence) -> Decision:
    """The spread over methods of the correlation with each metric: with values minus binary."""
    first, second = average_drop(evidence), binary_drop(evidence)
    others = [insertion(evidence), deletion(evidence), road(evidence)]
    return most(*(evidence.spread(m, first, second, methods(evidence, m, first, second), above=0.0) for m in others))


@declare("binary-same")
def binary_same(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    levels = [binary_drop(evidence), binary_drop(evidence, 0.75)]
    return every(*(_correlation(evidence, average_drop(evidence), m, above=0.99) for m in levels))
