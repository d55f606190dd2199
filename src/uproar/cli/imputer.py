"""The linear imputer, compiled before it is needed, with a line that says so."""

from __future__ import annotations

from collections.abc import Iterable

from uproar.cli.progress import Watch
from uproar.expression import parse
from uproar.metrics.registry import metrics
from uproar.removal.linear import warm_up


def compile_imputer(fill: str, metric_names: Iterable[str], watch: Watch) -> None:
    """Compile the imputer now if anything asked for needs it: once per installation, 10 to 20 seconds."""
    needed = parse(fill).name == "linear"
    for name in metric_names:
        call = parse(name)
        default = metrics[call.name].options.get("fill")
        chosen = dict(call.options).get("fill", default.default if default else "")
        needed |= bool(chosen) and parse(str(chosen)).name == "linear"
    if needed:
        watch.say("making the linear imputer ready (compiled once per installation)")
        warm_up()
