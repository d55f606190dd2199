"""What tasks on a SLURM cluster ask for: `--slurm partition=gpu,time=4h,memory=16GB`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from uproar.errors import BadInput
from uproar.study.spec import Resources

SlurmRequest = str | Mapping[str, Any]
"""What a user asks of a SLURM cluster: `partition=gpu,time=4h`, or the same as a mapping; `auto` for nothing."""
CLUSTERS = ("slurm", "local", "debug")
MOST_WORKERS = 1000
"""As many tasks as a job array may have where SLURM was installed as it comes (MaxArraySize)."""
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZES = {"MB": 1e-3, "M": 1e-3, "GB": 1.0, "G": 1.0, "TB": 1e3, "T": 1e3}
_WORD = re.compile(r"[\w.:@+\-\[\],&|*]+")
"""What SLURM's own names may have; nothing that a shell would read as more than a word."""


@dataclass(frozen=True)
class SlurmSettings:
    """What each task asks for, and how many there are at a time. Results do not depend on any of it."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    exclude: str = ""
    time: float = 4 * 3600.0
    """Seconds after which SLURM ends a task."""
    memory: float = 0.0
    """Gigabytes of a task; 0 leaves it to the cluster."""
    cpus: int = 1
    gpus: int = 0
    workers: int = 16
    """Tasks at a time, also the size of the largest job array."""
    logs: str = ""
    """The folder of submitit's files and of what tasks print; beside the store by default."""
    cluster: str = "slurm"
    """`slurm`, or `local` and `debug` to try it on this machine."""


def read_settings(given: SlurmRequest, resources: Resources) -> SlurmSettings:
    """The settings that a text or a mapping asks for; `cpus` and `gpus` are those of the study unless given.

    >>> read_settings("partition=gpu,time=90m,memory=16GB", Resources()).time
    5400.0
    """
    pairs = _pairs(given) if isinstance(given, str) else {name: str(value) for name, value in given.items()}
    known = [field.name for field in fields(SlurmSettings)]
    for name in pairs:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            raise BadInput(f"--slurm has no {name!r}{meant}; it takes {', '.join(known)}.")
    of_study = {"cpus": f"{resources.cpus:g}", "gpus": f"{resources.gpus:g}"}
    return SlurmSettings(**{name: _READ.get(name, _word)(name, value) for name, value in {**of_study, **pairs}.items()})


def _pairs(text: str) -> dict[str, str]:
    """`KEY=VALUE` by key; `exclude` may come several times, `auto` alone is nothing."""
    pairs: dict[str, str] = {}
    for part in re.split(r",(?![^\[]*\])", text.strip()) if text.strip() != "auto" else ():
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            raise BadInput(f"--slurm takes auto or KEY=VALUE,… such as partition=gpu,time=4h; not {part!r}.")
        if name in pairs and name != "exclude":
            raise BadInput(f"--slurm has {name} twice: {pairs[name]} and {value}.")
        pairs[name] = f"{pairs[name]},{value}" if name in pairs else value
    return pairs


def _word(name: str, value: str) -> str:
    if not _WORD.fullmatch(value):
        raise BadInput(f"--slurm {name} is a name as SLURM has them, not {value!r}.")
    return value


def _path(name: str, value: str) -> str:
    return value


def _cluster(name: str, value: str) -> str:
    if value not in CLUSTERS:
        raise BadInput(f"--slurm {name} is {', '.join(CLUSTERS)}, not {value!r}.")
    return value


def _time(name: str, value: str) -> float:
    """`90m`, `4h`, `2d`, or as SLURM writes it: `HH:MM:SS`, `D-HH:MM:SS`."""
    short = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", value)
    clock = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)", value)
    if short:
        seconds = float(short[1]) * _TIMES[short[2]]
    elif clock:
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        seconds = days * 86400.0 + hours * 3600 + minutes * 60 + rest
    else:
        raise BadInput(f"--slurm {name} is a time such as 90m, 4h or 1-12:00:00, not {value!r}.")
    if seconds < 60:
        raise BadInput(f"--slurm {name} is at least a minute: SLURM counts in minutes; not {value!r}.")
    return seconds


def _memory(name: str, value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", value)
    if match is None or match[2].upper() not in _SIZES or not float(match[1]):
        raise BadInput(f"--slurm {name} is a size such as 16GB or 900MB, not {value!r}.")
    return float(match[1]) * _SIZES[match[2].upper()]


def _count(name: str, value: str) -> int:
    least, most = {"gpus": (0, 64), "workers": (1, MOST_WORKERS)}.get(name, (1, 4096))
    if not value.isdigit() or not least <= int(value) <= most:
        whole = "; SLURM gives whole ones" if re.fullmatch(r"0?\.\d+", value) else ""
        raise BadInput(f"--slurm {name} is a whole number from {least} to {most}, not {value!r}{whole}.")
    return int(value)


_READ: dict[str, Any] = {
    "time": _time,
    "memory": _memory,
    "cpus": _count,
    "gpus": _count,
    "workers": _count,
    "logs": _path,
    "cluster": _cluster,
}
