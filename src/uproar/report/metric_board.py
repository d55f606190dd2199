"""The board of judges: metrics and protocols by how well they recover known orders, as a page and as data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from uproar.metrics.probe import images_shown
from uproar.metrics.registry import metrics
from uproar.protocols import PROTOCOLS
from uproar.results.recovery import COLUMNS, LEAST, LEAST_LOW, MATTER, NAMED, JudgeRecovery, judge_recoveries
from uproar.statistics.recovery import MOST_REPLICATES

SHAPE = (1, 16, 16)
"""The images of the suite, for which costs are stated."""
_INTRO = """# Which judge to trust

Every metric and protocol below was shown maps whose order of quality is known: the truth of tasks with known evidence,
and the truth made worse step by step (`degraded`). A number is Kendall's τ between the judge's order and the known one,
the mean over tasks: 1 all pairs right, 0 by chance, −1 turned round. **Recovery** is the mean over the kinds
{kinds}, with its 95 % interval over tasks (Student's t). A judge is **trusted** where
recovery is at least {least}, the lower end of the interval lies above {low}, none of these kinds is turned round, and a
random map stands above the truth on no task.

Made by `{command}` with uproar {version}, torch {torch}, Python {python}; {total} minutes of processor time. `wrong` is
the share of pairs that are put in the wrong order with confidence; `needs` the median number of images until one of
these differences is seen in 80 % of samples; `trainings` the same for replicates, each with an explained network and
trainings of its own, of the judges that train, from {replicates} replicates on two tasks; `range` the median of the
largest minus the smallest value, as a share of the judge's range where that is finite; `cost` forward passes per image
of 16×16 pixels, or trainings per map. A judge
is `blind to` kinds with τ between −.2 and .2, and `rewards` what turns an order round (below −.2). A dash: unknown.
Protocols remove or keep {fraction} of the pixels; evaluators are judged by their own score, bits of own minus shifted
masks, all other protocols by accuracy. But for `trainings`, networks, images and draws are of one seed; the interval is
over tasks alone.

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
    seconds: Mapping[str, float] = facts["seconds"]
    total = f"{sum(seconds.values()) / 60:.0f}"
    intro = _INTRO.format(kinds=", ".join(MATTER), least=LEAST, low=LEAST_LOW, total=total, **facts)
    return "\n".join([intro, *_main(every), ""])


def _main(every: Sequence[JudgeRecovery]) -> list[str]:
    head = ["judge", "recovery", "interval", "tasks", "trusted", "wrong", "needs", "trainings", "range", "cost"]
    head += ["blind to", "rewards"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in every:
        r = one.recovery
        interval = f"{r.low:.2f} … {r.high:.2f}" if math.isfinite(r.low) else "–"
        kind = "describes" if _describes(one.judge) else "yes" if one.trusted else "no"
        cells = [f"`{one.judge}`", f"{r.value:.2f}", interval, str(r.n), kind, f"{one.wrong:.0%}", _needs(one.needed)]
        cells += [_trainings(one), range_used(one), cost(one.judge)]
        cells += [", ".join(one.blind) or "–", ", ".join(one.rewards) or "–"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def range_used(one: JudgeRecovery) -> str:
    """The part of its range that a judge uses for a known order: a share, or a size where the range has no end."""
    if one.judge in PROTOCOLS:
        return f"{one.spread:.2f}"
    facts = metrics[one.judge.partition("(")[0]].facts
    whole = facts["high"] - facts["low"]
    return f"{one.spread / whole:.2f}" if math.isfinite(whole) else f"{one.spread:.2g} of ∞"


def _describes(judge: str) -> bool:
    return judge not in PROTOCOLS and bool(metrics[judge.partition("(")[0]].facts["describes"])


def _needs(images: float) -> str:
    return f"{images:,.0f}" if math.isfinite(images) and images < 1e6 else "∞"


def _trainings(one: JudgeRecovery) -> str:
    """Replicates that a judge which trains needs; nothing is trained for the others."""
    protocol = PROTOCOLS.get(one.judge)
    if protocol is None or not protocol.retrains or math.isnan(one.replicates):
        return "–"
    return f"{math.ceil(one.replicates)}" if one.replicates < MOST_REPLICATES else "∞"


def cost(judge: str) -> str:
    """Forward passes per image, or trainings per map."""
    if judge in PROTOCOLS:
        return "a training" if PROTOCOLS[judge].retrains else "1"
    return f"{images_shown((judge,), SHAPE):,.0f}"


def board_json(table: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """The same as data, a row a line; names are numbers of lists before them, infinitely many images are null."""
    names = {column: [*dict.fromkeys(table[column])] for column in NAMED}
    numbers = {column: table[column].map({name: i for i, name in enumerate(own)}) for column, own in names.items()}
    needed = np.where(np.isfinite(table["needed"]), table["needed"], np.nan)
    rounded = table.assign(needed=needed, counts=table["counts"].astype(int), **numbers).round(4)
    rows = [json.dumps([None if _missing(v) else v for v in row]) for row in rounded.to_numpy(dtype=object).tolist()]
    head = json.dumps({**facts, "names": names, "columns": [*COLUMNS]}, ensure_ascii=False)[:-1]
    return head + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"


def _missing(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
