"""Numbers that Vandersmissen and Oramas 2023 print, for ResNet-50 on ImageNet, by the names of our estimators."""

from __future__ import annotations

METHODS = {
    "ada_sise": "adaSISE",
    "grad_cam": "Grad-CAM",
    "ig": "IG",
    "lrp": "LRP",
    "occlusion": "Occlusion",
    "rise": "RISE",
    "sg(grad)": "SmoothGrad",
    "tame": "TAME",
}
"""By what they are, as the paper calls them, in its order."""

TABLE: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("pointing game ↑", "pointing_game", (92.77, 86.30, 81.72, 80.31, 83.66, 91.94, 89.45, 83.26)),
    ("average drop % ↓", "average_drop", (47.05, 14.96, 96.85, 66.26, 94.77, 14.02, 96.99, 27.45)),
    ("increase in confidence % ↑", "increase_in_confidence", (20.04, 41.51, 1.81, 9.40, 2.68, 43.90, 1.67, 35.93)),
    ("ROAD ↓", "road", (0.166, 0.201, 0.292, 0.199, 0.238, 0.170, 0.447, 0.206)),
)
"""Published for ResNet-50 on ImageNet, in the order of METHODS."""

PAIRS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("insertion & deletion", (-0.662, -0.695, -0.677, -0.659, -0.644, -0.676, -0.715, -0.640)),
    ("insertion & avg. drop", (0.090, 0.172, -0.349, 0.101, -0.322, 0.017, -0.349, 0.243)),
    ("insertion & pointing", (-0.179, -0.137, -0.135, -0.155, -0.129, -0.212, -0.131, -0.215)),
    ("insertion & ROAD", (-0.715, -0.724, -0.788, -0.698, -0.746, -0.712, -0.900, -0.668)),
    ("deletion & avg. drop", (0.008, -0.063, 0.318, -0.146, 0.309, 0.106, 0.272, 0.042)),
    ("deletion & pointing", (0.060, 0.084, 0.014, 0.040, -0.038, 0.088, 0.049, -0.051)),
    ("deletion & ROAD", (0.900, 0.918, 0.781, 0.810, 0.853, 0.904, 0.698, 0.928)),
    ("avg. drop & pointing", (-0.036, -0.047, 0.076, -0.056, 0.070, -0.089, 0.084, -0.300)),
    ("avg. drop & ROAD", (0.075, -0.049, 0.405, 0.011, 0.369, 0.127, 0.398, 0.061)),
    ("pointing & ROAD", (-0.062, -0.080, -0.086, -0.047, 0.000, -0.084, -0.129, 0.059)),
)

INSERTION_PUBLISHED = {
    ("mean + pixel", "blur + pixel"): 0.817,
    ("mean + pixel", "uniform + pixel"): 0.958,
    ("mean + pixel", "mean + region"): 0.874,
    ("mean + pixel", "blur + region"): 0.776,
    ("mean + pixel", "uniform + region"): 0.865,
    ("blur + pixel", "uniform + pixel"): 0.805,
    ("blur + pixel", "mean + region"): 0.786,
    ("blur + pixel", "blur + region"): 0.948,
    ("blur + pixel", "uniform + region"): 0.773,
    ("uniform + pixel", "mean + region"): 0.853,
    ("uniform + pixel", "blur + region"): 0.770,
    ("uniform + pixel", "uniform + region"): 0.886,
    ("mean + region", "blur + region"): 0.807,
    ("mean + region", "uniform + region"): 0.959,
    ("blur + region", "uniform + region"): 0.788,
}
DELETION_PUBLISHED = {
    ("mean + pixel", "blur + pixel"): 0.800,
    ("mean + pixel", "uniform + pixel"): 0.965,
    ("mean + pixel", "mean + region"): 0.890,
    ("mean + pixel", "blur + region"): 0.779,
    ("mean + pixel", "uniform + region"): 0.881,
    ("blur + pixel", "uniform + pixel"): 0.788,
    ("blur + pixel", "mean + region"): 0.764,
    ("blur + pixel", "blur + region"): 0.955,
    ("blur + pixel", "uniform + region"): 0.750,
    ("uniform + pixel", "mean + region"): 0.872,
    ("uniform + pixel", "blur + region"): 0.768,
    ("uniform + pixel", "uniform + region"): 0.897,
    ("mean + region", "blur + region"): 0.784,
    ("mean + region", "uniform + region"): 0.966,
    ("blur + region", "uniform + region"): 0.764,
}
"""Means over the eight methods of Table A1; Table 1 has some of them, rounded elsewhere."""

BLUR_PUBLISHED = {
    "ig": (
        ("pointing_game", 81.72, 82.12),
        ("average_drop", 96.85, 44.99),
        ("increase_in_confidence", 1.81, 21.88),
        ("road", 0.292, 0.213),
    ),
    "sg(grad)": (
        ("pointing_game", 89.45, 88.96),
        ("average_drop", 96.99, 49.11),
        ("increase_in_confidence", 1.67, 15.12),
        ("road", 0.447, 0.185),
    ),
}

BINARY_PUBLISHED: dict[str, tuple[float, float]] = {
    "ada_sise": (0.0898, 0.1361),
    "grad_cam": (0.1725, 0.2094),
    "ig": (-0.3492, 0.2411),
    "lrp": (0.1010, 0.2398),
    "occlusion": (-0.3220, 0.0169),
    "rise": (0.0167, 0.1328),
    "sg(grad)": (-0.3504, 0.2285),
    "tame": (0.2433, 0.2645),
}
"""Correlation of average drop with insertion: with the values of maps, and binary at their median."""
