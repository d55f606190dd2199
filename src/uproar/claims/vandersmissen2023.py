"""Claims of Vandersmissen and Oramas 2023, "On the coherency of quantitative evaluation of visual explanations"."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Unpack

from uproar.claims.base import claim, every, most
from uproar.claims.found import Found
from uproar.errors import NotApplicable
from uproar.judgement import Measure, Range, Weighed

SPARSE = ("ig", "sg(grad)", "occlusion")
FINE = (*SPARSE, "lrp")
BLURRED = ("ig", "sg(grad)")
BLURS = ("coarse", "gaussian")
"""The paper's blur and a plain one; the first that a study has is taken."""
COARSE = ("rise", "ada_sise", "grad_cam", "tame")
AGREE = 0.7
"""The usual least correlation of two forms of one test; the least published one is .775."""
WEAK = 0.3
"""Correlations within this of zero count as weak; no published one of the pointing game is further away."""
SAME_HITS = 0.05
"""Five points of the pointing game count as negligible."""


def insertion(found: Found, **options: str) -> str:
    """The study's insertion by pixels."""
    return found.metric("insertion", **({"unit": "pixel"} | options))


def deletion(found: Found, **options: str) -> str:
    """The study's deletion by pixels."""
    return found.metric("deletion", **({"unit": "pixel"} | options))


def average_drop(found: Found) -> str:
    """Average drop with the values of the maps."""
    for options in ({"binarise": None}, {"threshold": None, "percentile": None}):
        try:
            return found.metric("average_drop", **options)
        except NotApplicable:
            continue
    raise NotApplicable("the study has no metric average_drop")


def binary_drop(found: Found) -> str:
    """Average drop with maps that were made binary at their median."""
    for options in ({"binarise": 0.5}, {"percentile": 50.0}):
        try:
            return found.metric("average_drop", **options)
        except NotApplicable:
            continue
    raise NotApplicable("the study has no average_drop(binarise=0.5)")


# do metrics agree?


@claim(
    "vandersmissen2023:insertion-deletion",
    place="section 4.3, Table 2",
    says="Over images, insertion and deletion correlate negatively, both with higher as better.",
    published="-.64 to -.72",
)
def insertion_deletion(found: Found) -> Weighed:
    """Spearman's correlation over images, mean over estimators."""
    return every(found.correlation(insertion(found), deletion(found), below=0.0))


@claim(
    "vandersmissen2023:deletion-road",
    place="section 4.3, Table 2",
    says="Over images, deletion and ROAD correlate strongly.",
    published=".70 to .93",
)
def deletion_road(found: Found) -> Weighed:
    """Spearman's correlation over images, mean over estimators."""
    return every(found.correlation(deletion(found), found.metric("road"), above=0.5))


@claim(
    "vandersmissen2023:insertion-road",
    place="section 4.3, Table 2",
    says="Over images, insertion and ROAD correlate negatively.",
    published="-.67 to -.90",
)
def insertion_road(found: Found) -> Weighed:
    """Spearman's correlation over images, mean over estimators."""
    return every(found.correlation(insertion(found), found.metric("road"), below=0.0))


@claim(
    "vandersmissen2023:road-blur-deletion",
    place="section 5",
    says="ROAD, which solves for what it fills in, agrees with deletion to a blurred image.",
    published="a significant correlation (text)",
)
def road_blur_deletion(found: Found) -> Weighed:
    """Spearman's correlation over images, mean over estimators."""
    return every(found.correlation(found.metric("road"), deletion(found, fill="blur"), above=0.5))


@claim(
    "vandersmissen2023:pointing",
    place="section 4.3, Table 2",
    says="The pointing game is nearly uncorrelated with insertion, deletion, ROAD and average drop.",
    published="-.30 to .09, the mean over methods -.16 to .03",
)
def pointing(found: Found) -> Weighed:
    """Point-biserial correlations over images, mean over estimators."""
    game = found.metric("pointing_game")
    others = [insertion(found), deletion(found), found.metric("road"), average_drop(found)]
    return every(
        *(found.correlation(m, game, binary=True, above=-WEAK, below=WEAK) for m in others)
    )


def _configurations(found: Found, kind: str) -> Weighed:
    names = []
    for unit, fill in itertools.product(("pixel", "region"), ("mean", "blur", "uniform")):
        try:
            names.append(found.metric(kind, unit=unit, fill=fill))
        except NotApplicable:
            continue
    pairs = itertools.combinations(dict.fromkeys(names), 2)
    return every(*(found.correlation(a, b, above=AGREE) for a, b in pairs))


@claim(
    "vandersmissen2023:insertion-settings",
    place="section 4.2, Table 1",
    says="The settings of insertion (fill, pixel or region) agree on which maps of images are better.",
    published=".775 to .948",
)
def insertion_settings(found: Found) -> Weighed:
    """Spearman's correlation of every two settings, mean over estimators."""
    return _configurations(found, "insertion")


@claim(
    "vandersmissen2023:deletion-settings",
    place="section 4.2, Table 1",
    says="The settings of deletion (fill, pixel or region) agree on which maps of images are better.",
    published=".872 to .966",
)
def deletion_settings(found: Found) -> Weighed:
    """Spearman's correlation of every two settings, mean over estimators."""
    return _configurations(found, "deletion")


# sparse and coarse maps


def _blurring(found: Found, metric: str, **claimed: Unpack[Range]) -> Weighed:
    pairs = [(found.there([f"{how}({n})" for how in BLURS])[:1], n) for n in found.there(BLURRED)]
    return every(
        *(found.gap(metric, blurred, n, **claimed) for some, n in pairs for blurred in some)
    )


@claim(
    "vandersmissen2023:blur-insertion",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps improves insertion.",
    published="clearly higher curves (figure)",
)
def blur_insertion(found: Found) -> Weighed:
    """Blurred against plain."""
    return _blurring(found, insertion(found), above=0.0)


@claim(
    "vandersmissen2023:blur-drop",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps improves average drop.",
    published="IG 96.85 to 44.99 %, SmoothGrad 96.99 to 49.11 %",
)
def blur_drop(found: Found) -> Weighed:
    """Blurred against plain."""
    return _blurring(found, average_drop(found), above=0.0)


@claim(
    "vandersmissen2023:blur-deletion",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps worsens deletion.",
    published="slightly higher curves (figure)",
)
def blur_deletion(found: Found) -> Weighed:
    """Blurred against plain."""
    return _blurring(found, deletion(found), below=0.0)


@claim(
    "vandersmissen2023:blur-pointing",
    place="section 4.4, Figure 4",
    says="Blurring IG and SmoothGrad maps hardly changes the pointing game.",
    published="IG 81.72 to 82.12 %, SmoothGrad 89.45 to 88.96 %",
)
def blur_pointing(found: Found) -> Weighed:
    """Blurred against plain."""
    game = found.metric("pointing_game")
    return _blurring(found, game, above=-SAME_HITS, below=SAME_HITS)


def _sides(found: Found, metric: str, **claimed: Unpack[Range]) -> Sequence[Measure]:
    coarse, fine = found.there(COARSE), found.there(FINE)
    return [found.gap(metric, a, b, **claimed) for a in coarse for b in fine]


@claim(
    "vandersmissen2023:coarse-insertion",
    place="section 4.1, Figure 2",
    says="Coarse maps (RISE, Ada-SISE, Grad-CAM, TAME) are mostly better than fine ones (IG, SmoothGrad, LRP, "
    "occlusion) by insertion.",
    published="higher curves (figure)",
)
def coarse_insertion(found: Found) -> Weighed:
    """Every coarse map against every fine one."""
    return most(*_sides(found, insertion(found), above=0.0))


@claim(
    "vandersmissen2023:coarse-drop",
    place="section 4.1, Figure 2",
    says="Coarse maps are mostly better than fine ones by average drop.",
    published="14.0 to 47.1 % against 66.3 to 97.0 %",
)
def coarse_drop(found: Found) -> Weighed:
    """Every coarse map against every fine one."""
    return most(*_sides(found, average_drop(found), above=0.0))


@claim(
    "vandersmissen2023:coarse-deletion",
    place="section 4.1, Figure 2",
    says="Coarse maps are mostly worse than fine ones by deletion.",
    published="higher curves (figure)",
)
def coarse_deletion(found: Found) -> Weighed:
    """Every coarse map against every fine one."""
    return most(*_sides(found, deletion(found), below=0.0))


def _regions(found: Found, kind: str, **claimed: Unpack[Range]) -> Weighed:
    region, pixel = (found.metric(kind, unit=unit, fill="mean") for unit in ("region", "pixel"))
    return every(*(found.between(region, pixel, n, **claimed) for n in found.there(SPARSE)))


@claim(
    "vandersmissen2023:region-insertion",
    place="appendix B, Figure A1",
    says="Sparse maps (IG, SmoothGrad, occlusion) score better when insertion goes by regions instead of pixels.",
    published="higher curves (figure)",
)
def region_insertion(found: Found) -> Weighed:
    """Regions against pixels, image by image."""
    return _regions(found, "insertion", above=0.0)


@claim(
    "vandersmissen2023:region-deletion",
    place="appendix B, Figure A2",
    says="Sparse maps score worse when deletion goes by regions instead of pixels.",
    published="slightly higher curves (figure)",
)
def region_deletion(found: Found) -> Weighed:
    """Regions against pixels, image by image."""
    return _regions(found, "deletion", below=0.0)


# average drop with binary maps


@claim(
    "vandersmissen2023:binary-coherent",
    place="section 4.5 and appendix E, Tables 3 and A3",
    says="With binary maps, average drop relates to insertion more alike from estimator to estimator.",
    published="-.35 to .24 with values, .02 to .26 at the 50th percentile",
)
def binary_coherent(found: Found) -> Weighed:
    """The spread over estimators of the correlation with insertion: with values minus binary."""
    part = found.spread(insertion(found), average_drop(found), binary_drop(found), above=0.0)
    return every(part)


@claim(
    "vandersmissen2023:binary-same",
    place="appendix E",
    says="Average drop with values and with binary maps order images exactly the same.",
    published="exactly 1; the released code correlates a list with itself there",
)
def binary_same(found: Found) -> Weighed:
    """Spearman's correlation over images, mean over estimators."""
    return every(found.correlation(average_drop(found), binary_drop(found), above=0.99))
