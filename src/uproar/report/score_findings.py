"""What the scores say, in sentences: who leads, where metrics contradict each other, what cannot be told."""

from __future__ import annotations

import itertools

from uproar.report.findings import Summary
from uproar.report.formatting import listed, score, shortened
from uproar.report.metric_guide import Metric
from uproar.report.score_table import ScoreTable
from uproar.statistics.design import BASELINE
from uproar.wording import counted, series


def score_summary(table: ScoreTable) -> Summary:
    """Which method is best, as far as the metrics can tell."""
    return Summary(_headline(table), tuple(_details(table)))


def metric_title(table: ScoreTable, metric: Metric) -> str:
    """The finding of one metric."""
    there, name = table.ranked(metric), shortened(metric.name, 48)
    if not table.scored(metric):
        return f"{name} gave no number"
    if not there:
        return f"{name} is undefined for too many images to rank any method"
    if len(there) == 1:
        return f"{listed(there)} has {score(table.value(there[0], metric))} under {name}"
    sole, leaders = table.sole(metric), table.leaders(metric)
    if sole is not None:
        if metric.describes:
            return f"{listed([sole])} has the {'highest' if metric.higher else 'lowest'} {name}"
        return f"{listed([sole])} is best under {name}"
    if not leaders:
        return f"{name} cannot tell the methods apart with {table.basis}"
    if len(leaders) == 1:
        return f"Nothing beats {listed(leaders)} under {name}, but it does not beat all others either"
    return f"{listed(leaders)} are beaten by none under {name}"


def _headline(table: ScoreTable) -> str:
    judges, methods = table.judges, table.methods
    if not any(table.scored(m) for m in table.metrics):
        return "No metric gave a number."
    if len(methods) == 1:
        return f"Nothing to compare: only {listed(methods)} was scored."
    if not judges:
        return "No method is better or worse here: these metrics only describe the maps."
    if not any(table.decided(m) for m in judges):
        what = f"{listed([m.name for m in judges])} cannot" if len(judges) == 1 else "No metric can"
        return f"{what} tell the methods apart with {table.basis}."
    if BASELINE in methods and not _beat_random(table):
        return f"No method beats random maps under {_any(judges)}."
    return _leading(table)


def _leading(table: ScoreTable) -> str:
    """The method that is beaten nowhere and leads most often; otherwise who leads where."""
    judges = table.judges
    unbeaten = [m for m in table.methods if not _beaten_under(table, m) and _won(table, m)]
    if not unbeaten:
        return _split(table)
    top = max(unbeaten, key=lambda m: len(_won(table, m)))
    name, won, total = shortened(top, 48), len(_won(table, top)), len(judges)
    if won == total:
        return f"{name} is best under {_all(judges)}."
    if 2 * won > total:
        return f"{name} is best under {won} of {total} metrics and beaten under none."
    return f"{name} is beaten under no metric, but decidedly best under only {won} of {total} metrics."


def _split(table: ScoreTable) -> str:
    """Nobody is both unbeaten and somewhere alone in front."""
    won = {m: _won(table, m) for m in table.methods if _won(table, m)}
    total = len(table.judges)
    if not won:
        unbeaten = [m for m in table.methods if not _beaten_under(table, m)]
        if unbeaten and len(unbeaten) < len(table.methods):
            verb = "is" if len(unbeaten) == 1 else "are"
            return f"No metric has one clear winner; {listed(unbeaten, 3)} {verb} beaten under none of {total}."
        return "No metric has one clear winner, and every method is beaten under some metric."
    order = sorted(won, key=lambda m: -len(won[m]))
    if len(order) == 1:
        name, lost = order[0], _beaten_under(table, order[0])
        return (
            f"{shortened(name, 48)} is best under {len(won[name])} of {counted(total, 'metric')}, "
            f"but beaten under {listed([m.name for m in lost], 2)}."
        )
    parts = [f"{shortened(m, 30)} is best under {listed([w.name for w in won[m]], 2)}" for m in order[:2]]
    return f"The metrics disagree: {', '.join(parts)}."


def _details(table: ScoreTable) -> list[str]:
    lines = [
        _unranked_line(table),
        _random_line(table),
        _beaten_line(table),
        *_contradictions(table),
        _undecided_line(table),
    ]
    lines += [_describing_line(table), _missing_line(table)]
    return [line for line in lines if line]


def _contradictions(table: ScoreTable, most: int = 2) -> list[str]:
    """Pairs of methods that metrics order differently, both decidedly."""
    pairs = []
    for a, b in itertools.combinations(table.methods, 2):
        up = [m.name for m in table.judges if table.beats(m, a, b)]
        down = [m.name for m in table.judges if table.beats(m, b, a)]
        if up and down:
            first, second = shortened(a, 40), shortened(b, 40)
            if len(down) > len(up):
                first, second, up, down = second, first, down, up
            line = (
                f"Metrics contradict each other: {first} is better than {second} under {listed(up, 3)}, "
                f"but worse under {listed(down, 3)}."
            )
            pairs.append((min(len(up), len(down)), line))
    lines = [line for _, line in sorted(pairs, key=lambda item: -item[0])]
    rest = [f"They do so on {counted(len(lines) - most, 'further pair')} of methods."] if len(lines) > most else []
    return lines[:most] + rest


def _random_line(table: ScoreTable) -> str:
    """How many metrics put each method above random maps, the best first."""
    judges, beat = table.judges, _beat_random(table)
    if BASELINE not in table.methods or len(table.methods) < 2 or not judges:
        return ""
    groups: dict[int, list[str]] = {}
    for method in table.methods:
        if method != BASELINE:
            groups.setdefault(len(beat.get(method, ())), []).append(method)
    if set(groups) == {0}:
        return "No method is better than random maps under any metric."
    parts = [f"{listed(groups[size])} under {_so_many(size, judges)}" for size in sorted(groups, reverse=True)]
    return f"Better than random maps: {'; '.join(parts)}."


def _so_many(size: int, metrics: tuple[Metric, ...]) -> str:
    if size == len(metrics):
        return _all(metrics)
    return f"{size} of {len(metrics)} metrics" if size else "no metric"


def _beaten_line(table: ScoreTable) -> str:
    """Methods that random maps beat under some metric, and that beat random maps under none."""
    hopeless = [m for m in table.methods if m not in _beat_random(table)]
    lost = {m.name: [w for w in hopeless if table.beats(m, BASELINE, w)] for m in table.judges}
    parts = [f"{listed(names, 3)} under {shortened(m, 40)}" for m, names in lost.items() if names]
    if not parts:
        return ""
    return f"Random maps are better than {series(parts)}: a sign against the method, or against the metric."


def _undecided_line(table: ScoreTable) -> str:
    undecided = [m.name for m in table.judges if len(table.ranked(m)) > 1 and table.sole(m) is None]
    if not undecided or len(undecided) == len(table.judges):
        return ""
    verb = "does" if len(undecided) == 1 else "do"
    return f"{listed(undecided, 5)} {verb} not single out one best method with {table.basis}."


def _describing_line(table: ScoreTable) -> str:
    names = [m.name for m in table.metrics if m.describes]
    if not names:
        return ""
    does, are = ("describes", "is") if len(names) == 1 else ("describe", "are")
    return f"{listed(names)} {does} the maps and {are} not counted: a smooth or sparse map need not be right."


def _missing_line(table: ScoreTable) -> str:
    empty = [m.name for m in table.metrics if not table.scored(m)]
    partly: dict[str, int] = {}
    for (_, metric), cell in table.cells.items():
        if cell.nan and metric not in empty:
            partly[metric] = max(partly.get(metric, 0), cell.nan)
    parts = [f"{listed(empty)} gave no number"] if empty else []
    parts += [f"{shortened(m, 40)} is not defined for up to {counted(k, 'image')}" for m, k in partly.items()]
    return f"{'; '.join(parts)}." if parts else ""


def _unranked_line(table: ScoreTable) -> str:
    """Methods that a metric does not rank, since it is undefined for too many of their images."""
    parts = []
    for metric in table.metrics:
        names = [m for m in table.scored(metric) if m not in table.ranked(metric)]
        named = [f"{shortened(m, 40)} ({table.cells[m, metric.name].undefined})" for m in names]
        if named:
            parts.append(f"{listed(named, 3)} under {shortened(metric.name, 40)}")
    return f"Not ranked: {'; '.join(parts)}." if parts else ""


def _won(table: ScoreTable, method: str) -> list[Metric]:
    return [m for m in table.judges if table.sole(m) == method]


def _beaten_under(table: ScoreTable, method: str) -> list[Metric]:
    return [m for m in table.judges if method in table.beaten(m)]


def _beat_random(table: ScoreTable) -> dict[str, list[Metric]]:
    won = {m: [j for j in table.judges if table.beats(j, m, BASELINE)] for m in table.methods}
    return {m: judges for m, judges in won.items() if judges}


def _all(metrics: tuple[Metric, ...]) -> str:
    names = {1: metrics[0].name, 2: f"both {listed([m.name for m in metrics])}"}
    return names.get(len(metrics), f"all {len(metrics)} metrics")


def _any(metrics: tuple[Metric, ...]) -> str:
    return metrics[0].name if len(metrics) == 1 else f"any of {len(metrics)} metrics"
