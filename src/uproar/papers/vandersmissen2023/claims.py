"""Claims of Vandersmissen and Oramas 2023, "On the coherency of quantitative evaluation of visual explanations"."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Unpack

import pandas as pd

from uproar.claims.base import claim, every, most
from uproar.claims.evidence import ClaimEvidence
from uproar.errors import NotApplicable
from uproar.estimators import read_chain
from uproar.results.judgement import Decision, Measure, Range

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
    try:
        return evidence.metric("road", by="probability")
    except NotApplicable:
        return evidence.metric("road")


def average_drop(evidence: ClaimEvidence) -> str:
    """Average drop with the values of the maps."""
    for options in ({"binarise": None}, {"threshold": None, "percentile": None}):
        try:
            return evidence.metric("average_drop", **options)
        except NotApplicable:
            continue
    raise NotApplicable("the study has no metric average_drop")


def binary_drop(evidence: ClaimEvidence, level: float = 0.5) -> str:
    """Average drop with maps that were made binary at their median, or at another level."""
    for options in ({"binarise": level}, {"percentile": 100 * level}):
        try:
            return evidence.metric("average_drop", **options)
        except NotApplicable:
            continue
    raise NotApplicable(f"the study has no average_drop(binarise={level:g})")


def methods(evidence: ClaimEvidence, *metrics: str) -> list[str]:
    """The estimators beside random with values of all these metrics; blurred versions are no methods of their own."""
    return [name for name in evidence.scored_by(*metrics) if not read_chain(name).filters]


def _correlation(evidence: ClaimEvidence, a: str, b: str, **claimed: Unpack[Range]) -> Measure:
    return evidence.correlation(a, b, methods(evidence, a, b), **claimed)


# do metrics agree?


@claim(
    "vandersmissen2023:insertion-deletion",
    place="section 4.3, Table 2",
    says="Over images, the negative correlation of insertion and deletion, both with higher as better, is high.",
    published="-.64 to -.72",
)
def insertion_deletion(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    return every(_correlation(evidence, insertion(evidence), deletion(evidence), below=-HIGH))


@claim(
    "vandersmissen2023:deletion-road",
    place="section 4.3, Table 2",
    says="Over images, the correlation of deletion and ROAD is high.",
    published=".70 to .93",
)
def deletion_road(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    return every(_correlation(evidence, deletion(evidence), road(evidence), above=HIGH))


@claim(
    "vandersmissen2023:insertion-road",
    place="section 4.3, Table 2",
    says="Over images, the negative correlation of insertion and ROAD is high.",
    published="-.67 to -.90",
)
def insertion_road(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    return every(_correlation(evidence, insertion(evidence), road(evidence), below=-HIGH))


@claim(
    "vandersmissen2023:road-blur-deletion",
    place="section 5",
    says="ROAD, which solves for what it fills in, agrees with deletion to a blurred image.",
    published="a significant correlation (text)",
)
def road_blur_deletion(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    blurred = deletion(evidence, fill="blur")
    return every(_correlation(evidence, road(evidence), blurred, above=HIGH))


@claim(
    "vandersmissen2023:pointing",
    place="section 4.3, Table 2",
    says="In the mean over methods, the pointing game is nearly uncorrelated with insertion, deletion, ROAD and "
    "average drop.",
    published="-.30 to .09, the mean over methods -.16 to .03",
)
def pointing(evidence: ClaimEvidence) -> Decision:
    """Point-biserial correlations over images, mean over estimators."""
    game = evidence.metric("pointing_game")
    others = [insertion(evidence), deletion(evidence), road(evidence), average_drop(evidence)]
    return every(
        *(
            evidence.correlation(m, game, methods(evidence, m, game), binary=True, above=-WEAK, below=WEAK)
            for m in others
        )
    )


def _configurations(evidence: ClaimEvidence, kind: str) -> Decision:
    names = []
    for unit, fill in itertools.product(("pixel", "region"), ("mean", "blur", "uniform")):
        try:
            names.append(evidence.metric(kind, unit=unit, fill=fill))
        except NotApplicable:
            continue
    pairs = itertools.combinations(dict.fromkeys(names), 2)
    return every(*(_correlation(evidence, a, b, above=AGREE) for a, b in pairs))


@claim(
    "vandersmissen2023:insertion-settings",
    place="section 4.2 and appendix B, Tables 1 and A1",
    says="The settings of insertion (fill, pixel or region) agree on which maps of images are better.",
    published="means over methods .770 to .959",
)
def insertion_settings(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation of every two settings, mean over estimators."""
    return _configurations(evidence, "insertion")


@claim(
    "vandersmissen2023:deletion-settings",
    place="section 4.2 and appendix B, Tables 1 and A1",
    says="The settings of deletion (fill, pixel or region) agree on which maps of images are better.",
    published="means over methods .750 to .966",
)
def deletion_settings(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation of every two settings, mean over estimators."""
    return _configurations(evidence, "deletion")


# sparse and coarse maps


def _blurring(evidence: ClaimEvidence, metric: str, **claimed: Unpack[Range]) -> Decision:
    pairs = [(evidence.there([f"{how}({n})" for how in BLURS])[:1], n) for n in evidence.there(BLURRED)]
    return every(*(evidence.gap(metric, blurred, n, **claimed) for some, n in pairs for blurred in some))


@claim(
    "vandersmissen2023:blur-insertion",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps improves insertion.",
    published="clearly higher curves (figure)",
)
def blur_insertion(evidence: ClaimEvidence) -> Decision:
    """Blurred against plain."""
    return _blurring(evidence, insertion(evidence), above=0.0)


@claim(
    "vandersmissen2023:blur-drop",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps improves average drop.",
    published="IG 96.85 to 44.99 %, SmoothGrad 96.99 to 49.11 %",
)
def blur_drop(evidence: ClaimEvidence) -> Decision:
    """Blurred against plain."""
    return _blurring(evidence, average_drop(evidence), above=0.0)


@claim(
    "vandersmissen2023:blur-deletion",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps worsens deletion.",
    published="slightly higher curves (figure)",
)
def blur_deletion(evidence: ClaimEvidence) -> Decision:
    """Blurred against plain."""
    return _blurring(evidence, deletion(evidence), below=0.0)


@claim(
    "vandersmissen2023:blur-pointing",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps hardly changes the pointing game.",
    published="IG 81.72 to 82.12 %, SmoothGrad 89.45 to 88.96 %",
)
def blur_pointing(evidence: ClaimEvidence) -> Decision:
    """Blurred against plain."""
    game = evidence.metric("pointing_game")
    return _blurring(evidence, game, above=-SAME_HITS, below=SAME_HITS)


def _sides(evidence: ClaimEvidence, metric: str, **claimed: Unpack[Range]) -> Sequence[Measure]:
    coarse, fine = evidence.there(COARSE), evidence.there(FINE)
    return [evidence.gap(metric, a, b, **claimed) for a in coarse for b in fine]


@claim(
    "vandersmissen2023:coarse-insertion",
    place="section 4.1, Figure 2",
    says="Coarse maps (RISE, Ada-SISE, Grad-CAM, TAME) are mostly better than fine ones (IG, SmoothGrad, LRP, "
    "occlusion) by insertion.",
    published="higher curves (figure)",
)
def coarse_insertion(evidence: ClaimEvidence) -> Decision:
    """Every coarse map against every fine one."""
    return most(*_sides(evidence, insertion(evidence), above=0.0))


@claim(
    "vandersmissen2023:coarse-drop",
    place="section 4.1, Figure 2",
    says="Coarse maps are mostly better than fine ones by average drop.",
    published="14.0 to 47.1 % against 66.3 to 97.0 %",
)
def coarse_drop(evidence: ClaimEvidence) -> Decision:
    """Every coarse map against every fine one."""
    return most(*_sides(evidence, average_drop(evidence), above=0.0))


@claim(
    "vandersmissen2023:coarse-deletion",
    place="section 4.1, Figure 2",
    says="Coarse maps are mostly worse than fine ones by deletion.",
    published="higher curves (figure)",
)
def coarse_deletion(evidence: ClaimEvidence) -> Decision:
    """Every coarse map against every fine one."""
    return most(*_sides(evidence, deletion(evidence), below=0.0))


def _regions(evidence: ClaimEvidence, kind: str, **claimed: Unpack[Range]) -> Decision:
    """Regions against pixels for each sparse map, and for all of them together against the coarse ones."""
    region, pixel = (evidence.metric(kind, unit=unit, fill="mean") for unit in ("region", "pixel"))

    def gain(names: Sequence[str]) -> pd.Series:
        own = [evidence.estimator(n) for n in names]
        return pd.DataFrame({n: evidence.per_image(region, n) - evidence.per_image(pixel, n) for n in own}).mean(axis=1)

    sparse, coarse = evidence.there(SPARSE), evidence.there(COARSE)
    parts = [evidence.between(region, pixel, n, **claimed) for n in sparse]
    if sparse and coarse:
        what = f"{region} minus {pixel}: {len(sparse)} sparse against {len(coarse)} coarse maps"
        parts.append(evidence.over_images(what, gain(sparse) - gain(coarse), **claimed))
    return every(*parts)


@claim(
    "vandersmissen2023:region-insertion",
    place="appendix B, Figure A1",
    says="Sparse maps (IG, SmoothGrad, occlusion) score better when insertion goes by regions instead of pixels, and "
    "gain more by it than coarse maps.",
    published="higher curves; little difference for the others (figure)",
)
def region_insertion(evidence: ClaimEvidence) -> Decision:
    """Regions against pixels, image by image."""
    return _regions(evidence, "insertion", above=0.0)


@claim(
    "vandersmissen2023:region-deletion",
    place="appendix B, Figure A2",
    says="Sparse maps score worse when deletion goes by regions instead of pixels, and lose more by it than coarse "
    "maps.",
    published="slightly higher curves; little difference for the others (figure)",
)
def region_deletion(evidence: ClaimEvidence) -> Decision:
    """Regions against pixels, image by image."""
    return _regions(evidence, "deletion", below=0.0)


# average drop with binary maps


@claim(
    "vandersmissen2023:binary-coherent",
    place="section 4.5 and appendix E, Tables 3 and A3",
    says="With binary maps, average drop relates to most of insertion, deletion and ROAD more alike from method to "
    "method.",
    published="with insertion -.35 to .24 with values, .02 to .26 at the 50th percentile; generally more coherent",
)
def binary_coherent(evidence: ClaimEvidence) -> Decision:
    """The spread over methods of the correlation with each metric: with values minus binary."""
    first, second = average_drop(evidence), binary_drop(evidence)
    others = [insertion(evidence), deletion(evidence), road(evidence)]
    return most(*(evidence.spread(m, first, second, methods(evidence, m, first, second), above=0.0) for m in others))


@claim(
    "vandersmissen2023:binary-same",
    place="appendix E",
    says="Average drop with values and with binary maps order images exactly the same, at the 50th and 75th "
    "percentile.",
    published="exactly 1",
)
def binary_same(evidence: ClaimEvidence) -> Decision:
    """Spearman's correlation over images, mean over estimators."""
    levels = [binary_drop(evidence), binary_drop(evidence, 0.75)]
    return every(*(_correlation(evidence, average_drop(evidence), m, above=0.99) for m in levels))
