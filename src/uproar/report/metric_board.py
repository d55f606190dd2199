"""The board of judges: metrics and protocols by how well they recover known orders, as a page and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from uproar.metrics.probe import images_shown
from uproar.metrics.registry import metrics, uses_order
from uproar.protocols import PROTOCOLS
from uproar.results.recovery import COLUMNS, LEAST, LEAST_LOW, MATTER, JudgeRecovery, judge_recoveries

SHAPE = (1, 16, 16)
"""The images of the suite, for which costs are stated."""
_INTRO = """# Which judge to trust

Every metric and protocol below was shown maps whose order of quality is known: the truth of tasks with known evidence,
and the truth made worse step by step (`degraded`). A number is Kendall's τ between the judge's order and the known one,
the mean over tasks: 1 all pairs right, 0 by chance, −1 turned round. **Recovery** is the mean over the kinds
{kinds}, with its 95 % interval over tasks (Student's t). A judge is **trusted** where
recovery is at least {least} and the lower end of the interval lies above {low}.

Made by `{command}` with uproar {version}, torch {torch}; {seconds} seconds of processor time in this process. `needs`
is the median number of images until one of these differences is seen in 80 % of samples; `cost` is forward passes per
image of 16×16 pixels, or trainings per map; `wrong` the share of pairs that are put in the wrong order with confidence.
A dash: not asked. Networks, images and draws are of one seed; the interval is over tasks alone.

| kind | what makes a map worse |
|---|---|
| noise, shift, blur | Gaussian noise; pixels a quarter of the side away; a Gaussian filter |
| missing, extra | important pixels lack; others are marked too |
| encoder, edges | important pixels are replaced by a place that tells the class; by strong edges |
| sign, contrast | pixels have the wrong sign; the background is raised, and the order stays right |
| randomised, samples | `ig` of a network with layers drawn anew, fewer masks of RISE, if the network uses it |
| random, centre, brightness | the truth against a random map, a bump in the centre, the image itself |
"""


def board_page(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """The page, in Markdown."""
    every = judge_recoveries(table)
    kinds = list(dict.fromkeys(table["kind"]))
    intro = _INTRO.format(kinds=", ".join(MATTER), least=LEAST, low=LEAST_LOW, **facts)
    return "\n".join([intro, *_main(every, table), "", *_by_kind(every, kinds), "", *_tasks(table), ""])


def _main(every: Sequence[JudgeRecovery], table: pd.DataFrame) -> list[str]:
    head = ["| judge | recovery | interval | tasks | trusted | wrong | needs | cost | blind to | rewards |"]
    lines = [*head, "|---|---|---|---|---|---|---|---|---|---|"]
    for one in every:
        r = one.recovery
        interval = f"{r.low:.2f} … {r.high:.2f}" if math.isfinite(r.low) else "–"
        kind = "describes" if _describes(one.judge) else "yes" if one.trusted else "no"
        cells = [f"`{one.judge}`", f"{r.value:.2f}", interval, str(r.n), kind, f"{one.wrong:.0%}", _needs(one.needed)]
        cells += [cost(one.judge), ", ".join(one.blind) or "–", ", ".join(one.rewards) or "–"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _by_kind(every: Sequence[JudgeRecovery], kinds: Sequence[str]) -> list[str]:
    lines = ["## By kind", "", f"| judge | uses | {' | '.join(kinds)} |", f"|---|---|{'---|' * len(kinds)}"]
    for one in every:
        uses = "–" if one.judge in PROTOCOLS else "order" if uses_order(one.judge) else "values"
        taus = [f"{one.by_kind[kind]:.2f}" if kind in one.by_kind else "–" for kind in kinds]
        lines.append(f"| `{one.judge}` | {uses} | {' | '.join(taus)} |")
    return lines


def _tasks(table: pd.DataFrame) -> list[str]:
    lines = ["## Tasks", "", "| task | images | metrics | protocols |", "|---|---|---|---|"]
    for task, own in table.groupby("task", sort=False):
        names = set(own["judge"])
        among = len(names & set(PROTOCOLS))
        lines.append(f"| `{task}` | {int(own['images'].max())} | {len(names) - among} | {among} |")
    return lines


def _describes(judge: str) -> bool:
    return judge not in PROTOCOLS and bool(metrics[judge.partition("(")[0]].facts["describes"])


def _needs(images: float) -> str:
    return f"{images:,.0f}" if math.isfinite(images) and images < 1e6 else "∞"


def cost(judge: str) -> str:
    """Forward passes per image, or trainings per map."""
    if judge in PROTOCOLS:
        return "a training" if PROTOCOLS[judge].retrains else "1"
    return f"{images_shown((judge,), SHAPE):,.0f}"


def board_json(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """The same as data, a row a line; a number of images that is infinite is null."""
    rounded = table.assign(needed=np.where(np.isfinite(table["needed"]), table["needed"], np.nan)).round(4)
    rows = [
        json.dumps([None if _missing(v) else v for v in row], ensure_ascii=False) for row in rounded.to_numpy().tolist()
    ]
    head = json.dumps({**facts, "columns": [*COLUMNS]}, ensure_ascii=False)[:-1]
    return head + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
