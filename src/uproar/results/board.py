"""What the board found of metrics: how they order real methods on networks whose use of the input is known.

`docs/board.md` defines what is right and when a metric is trusted; both were written before the board was run. Numbers
are read from `metric_board.json`, which `tools/metric_board.py` makes; `study/board.py` computes its rows.

A metric inherits nothing: with another fill, range or number of points it is another metric.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from uproar.statistics.intervals import Interval, mean_interval
from uproar.wording import counted

BOARD = Path(__file__).with_name("metric_board.json")

PARTS = ("development", "held-out", "natural")
COLUMNS = {
    "metric": "with its options, as a study or `score` names it",
    "part": "development, held-out, natural: of real pictures, or check: of the user",
    "network": "task and model",
    "order": "τ with the known order of real methods by their whole order, mean over seeds; empty: no pair is known",
    "top": "the same by the first k pixels",
    "baselines": "τ of pairs of a method and a baseline, where both known orders agree",
    "degraded": "τ with the known order of degraded truths",
    "fooled": "the maps that are put above the known use in most seeds",
    "seeds": "networks that were trained, each with maps of its own",
}
"""The columns of the board."""

LEAST, TURNED, LEAST_DEGRADED = 0.5, -0.2, 0.8
"""Of a trusted metric: the least mean τ on real methods, what no network may reach, the least τ on degraded truths."""
IMPOSTORS = ("random", "block_random", "centre", "brightness", "sobel")
"""Maps that never look at the network; all others that can fool a metric are adversaries."""


@dataclass(frozen=True)
class Card:
    """What is known of one metric."""

    metric: str
    rows: pd.DataFrame
    """A row per network; see COLUMNS."""

    def tau(self, by: str, part: str = "") -> Interval:
        """The mean τ over networks with its interval, by `order`, `top`, `baselines` or `degraded`; ends at ±1.

        Networks of real pictures count by `baselines` and `degraded` alone: see docs/board.md.
        """
        made_up = self.rows["part"] != "natural"
        counts = self.rows["part"] == part if part else made_up | (by not in ("order", "top"))
        rows = self.rows[counts]
        mean = mean_interval(rows[by].to_numpy(dtype=float), exact=True)
        low, high = (float(np.clip(end, -1, 1)) for end in (mean.low, mean.high))
        return Interval(mean.value, low, high, mean.n)

    def pairs_right(self, by: str, part: str = "") -> float:
        """Of the pairs whose order is known, the share in the right order; ties count half."""
        return (1 + self.tau(by, part).value) / 2

    def fooled_by(self, impostors: bool) -> dict[str, list[str]]:
        """By map that fools it, the networks where it does: impostors, or adversaries."""
        networks: dict[str, list[str]] = {}
        for network, maps in zip(self.rows["network"], self.rows["fooled"], strict=True):
            for name in maps:
                if (name in IMPOSTORS) == impostors:
                    networks.setdefault(name, []).append(network)
        return networks

    @property
    def against(self) -> list[str]:
        """What speaks against trust, a phrase each."""
        phrases = []
        for part in [part for part in (*PARTS, "check") if (self.rows["part"] == part).any()]:
            for by, words in (("order", "by whole order"), ("top", "by top k"), ("baselines", "against baselines")):
                tau = self.tau(by, part).value
                if not tau >= LEAST and (by == "baselines" or part != "natural"):
                    phrases.append(f"τ = {tau:.2f} {words} ({part})")
            degraded = self.tau("degraded", part).value
            if not degraded >= LEAST_DEGRADED:
                phrases.append(f"τ = {degraded:.2f} on degraded truths ({part})")
        made_up = self.rows["part"] != "natural"
        turned = self.rows[made_up & (self.rows[["order", "top"]].min(axis=1) <= TURNED)]["network"]
        phrases += [f"the order is turned round on {network}" for network in turned]
        fooled = self.fooled_by(impostors=True)
        phrases += [f"{name} is put above the truth on {', '.join(networks)}" for name, networks in fooled.items()]
        return phrases

    @property
    def trusted(self) -> bool:
        """Whether the rule of trust holds (docs/board.md)."""
        return {*PARTS} <= {*self.rows["part"]} and not self.against

    @property
    def reversed(self) -> bool:
        """Whether it ranks the other way round: worse maps higher, and not by chance."""
        return self.tau("degraded").value < 0 and self.tau("degraded").high < 0

    def believe(self, label: str) -> str:
        """How far to believe it, in one sentence."""
        order, top = self.pairs_right("order"), self.pairs_right("top")
        natural = int((self.rows["part"] == "natural").sum())
        pairs = f"{self.pairs_right('baselines', 'natural'):.0%} of the pairs of a method and a baseline"
        pictures = f", and on {counted(natural, 'network')} of real pictures {pairs}" if natural else ""
        return (
            f"on {counted(len(self.rows) - natural, 'network')} whose use of the input is known, {label} put "
            f"{order:.0%} of the pairs of methods in the right order (whole order; {top:.0%} by the top pixels; "
            f"chance: 50%){pictures}."
        )

    @property
    def words(self) -> str:
        """The numbers beside its scores: "0.62 by whole order, 0.71 by top k, not trusted"."""
        numbers = f"{self.tau('order').value:.2f} by whole order, {self.tau('top').value:.2f} by top k"
        return f"{numbers}, {'trusted' if self.trusted else 'not trusted'}".replace("-", "−")


def agreement(metrics: Sequence[str]) -> str:
    """What the board calls the mean rank of a map under several metrics that decide together."""
    return f"mean rank by {', '.join(metrics)}"


@functools.cache
def board_table() -> pd.DataFrame:
    """The rows of the board; empty before it was first made."""
    if not BOARD.is_file():
        return pd.DataFrame(columns=[*COLUMNS])
    content = json.loads(BOARD.read_text(encoding="utf-8"))
    table = pd.DataFrame(content["rows"], columns=content["columns"])
    return table.astype({"order": float, "top": float, "baselines": float, "degraded": float})


def cards(table: pd.DataFrame) -> list[Card]:
    """A card for every metric of a table, the best first by the lower of its two τ."""
    unsorted = [Card(str(metric), rows) for metric, rows in table.groupby("metric", sort=False)]
    lower = {card.metric: min(card.tau("order").value, card.tau("top").value) for card in unsorted}
    return sorted(unsorted, key=lambda card: (math.isnan(lower[card.metric]), -lower[card.metric]))


def card_of(metric: str) -> Card | None:
    """What the board says of a metric with exactly these options; None where it was not measured."""
    table = board_table()
    rows = table[table["metric"] == metric]
    return Card(metric, rows) if len(rows) and rows["order"].notna().any() else None


def card_words(metric: str) -> str:
    """What stands beside the scores of a metric; empty for one that is not on the board."""
    card = card_of(metric)
    return "" if card is None else card.words
