"""The command lines that README.md and docs/*.md show, and how each is tried on a small scale.

Every documented line stands in exactly one of the tables below. A new line in the documentation that stands in none fails the
test: say here how it is tried, or why it cannot be.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TINY = ["--limit", "60", "--epochs", "1", "--seeds", "2", "--fractions", "0.5", "--jobs", "1"]
SMALL_NET = ["--task", "planted(size=8, classes=3, train=60, test=30)", *TINY[2:]]


@dataclass(frozen=True)
class Line:
    """A documented command line: where it stands, and its words."""

    place: str
    text: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)[1:]


def documented() -> list[Line]:
    """All lines in code blocks that begin with `uproar` or `make demo`, each once, without comments."""
    result: dict[str, Line] = {}
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        inside = False
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif inside and re.match(r"\s*(uproar( |$)|make demo)", line):
                text = re.sub(r"\s(#|&).*$", "", line.strip()).strip()
                result.setdefault(text, Line(f"{file.relative_to(ROOT)}:{number}", text))
    return list(result.values())


EVERYWHERE = {
    "uproar ls estimators": [],
    "uproar doctor": [],
    "uproar validate study.toml": ["--jobs", "1"],
    "uproar report runs/digits": [],
    "uproar clean": ["runs/digits"],
}
"""Those that compute nothing, tried on terminals of 80 and 200 columns, through pipes and with TERM=dumb: line, words added."""

COMPUTED = {
    "make demo": ["run", *TINY, "--estimators", "random,grad", "--out", "runs/demo"],
    "uproar run study.toml": ["--jobs", "1"],
    'uproar run --model net.py:build --plugin my_method.py --estimators "random,my_method,sg_sq(grad)"': [
        *SMALL_NET,
        "--estimators",
        "random,my_method",
    ],
    "uproar explain --estimators grad,grad_cam,lrp --out maps.png --save maps.npz": [
        "--limit",
        "5",
        "--task",
        "planted(size=8, classes=3, train=60, test=30)",
    ],
    "uproar explain photos/ --model net.py:build --weights net.safetensors": ["--estimators", "grad"],
    "uproar score --estimators grad,ig,rise --metrics insertion,deletion,road,soundness": [
        "--limit",
        "5",
        "--task",
        "planted(size=8, classes=3, train=60, test=30)",
        "--estimators",
        "grad",
        "--metrics",
        "deletion(steps=4)",
    ],
    "uproar score photos/ --model net.py:build --weights net.safetensors --maps maps.npz": [
        "--metrics",
        "deletion(steps=4)",
    ],
    "uproar choose photos/ --model net.py:build --weights net.safetensors": ["--methods", "grad"],
    "uproar choose --task digits": [
        "--task",
        "planted(size=8, classes=3, train=60, test=30)",
        "--model",
        "cnn-small(width=4)",
        "--methods",
        "grad",
    ],
    "uproar run --protocols evaluator": [*TINY, "--estimators", "random,grad", "--out", "runs/judged"],
    "uproar audit runs/digits": ["--audits", "variation", "--jobs", "1"],
    "uproar try my_method.py": ["--estimators", "my_method"],
    "uproar store verify runs/digits": [],
    "uproar store repair runs/digits": [],
    "uproar store clean runs/digits": [],
    "uproar claims runs/x": [],
    "uproar claims runs/x --claims li2024,song2023:blocks": [],
    "uproar report runs/x --markdown docs/results": [],
    "uproar report runs/digits --latex paper": [],
    "uproar explain --split both --task digits --estimators grad --save grad.safetensors": ["--limit", "40"],
}
"""Those that compute something, in turn in one of the four, and find their results again on a terminal of 80 columns; pages and
folders are written once. Line, words added; for `make demo` its command."""

NO_NETWORK = "needs a network"
NEW = "tried in tests/cli/test_new.py"
JSON = "tried in tests/cli/test_json.py"
SLURM = "tried in tests/study/test_submitit.py"
CLUSTER = "needs a cluster or a bucket"
PAGE = "the example of its page is run by a test of its own"
LIKE_RUN = "the command `uproar run study.toml` with other options"
ONLY_READ = {
    "uproar choose --task digits --budget 2m": "as `uproar choose --task digits`",
    'uproar explain --task digits --estimators "grad,ig,sg_sq(grad),lrp,grad_cam" --out maps.png': "as with other estimators",
    "uproar run --out runs/demo --seeds 3": "as `make demo`",
    "uproar explain photos/ --model net.py:build --weights net.safetensors --size 224": "as without --size",
    "uproar choose photos/ --model net.py:build --weights net.safetensors --size 224 --budget 10m": "as without --size",
    "uproar new estimator my_method.py": NEW,
    "uproar new metric my_metric.py": NEW,
    "uproar score --plugin my_metric.py --metrics my_metric,deletion,road --estimators random,grad,ig --limit 100": PAGE,
    "uproar run --plugin my_metric.py --metrics my_metric,road --estimators random,grad,ig --seeds 3": LIKE_RUN,
    "uproar new study study.toml": NEW,
    "uproar run study.toml --slurm cluster=local,workers=2 --out runs/rehearsal": SLURM,
    "uproar run study.toml --slurm partition=gpu,time=4h,workers=32 --out /shared/runs/study": SLURM,
    "uproar explain --plugin my_method.py --estimators my_method,grad,ig --out maps.png": "as with other estimators",
    "uproar score --plugin my_method.py --estimators my_method,grad,ig,random,brightness --limit 100": "as with other estimators",
    "uproar choose --task digits --plugin my_method.py --methods my_method,grad,ig --budget 3m": "as with other methods",
    "uproar run --plugin my_method.py --estimators random,my_method,grad,ig --seeds 3 --compare my_method": LIKE_RUN,
    "uproar choose photos/ --model net.py:build --weights net.safetensors --train training/": "as without --train",
    'uproar choose --task digits --methods "ig,grad_cam,sg_sq(grad)" --budget 10m': "as `uproar choose --task digits`",
    "uproar new study": NEW,
    "uproar diff runs/a runs/b": NEW,
    "uproar merge runs/a runs/b --out runs/both": NEW,
    "uproar run": "minutes of work; as `make demo`, which is tried with a smaller study",
    "uproar run --protocols evaluator --evaluator-models resnet-half,vgg-small": "tests/study/test_evaluator.py",
    "uproar run study.toml --until-decided": LIKE_RUN,
    "uproar run study.toml --ray auto": CLUSTER,
    "uproar run study.toml --slurm partition=gpu,time=4h": SLURM,
    "uproar run study.toml --slurm partition=gpu,time=4h,memory=16GB,gpus=1,workers=32 --out /shared/runs/study": SLURM,
    "uproar run study.toml --json": JSON,
    "uproar report runs/digits --json": JSON,
    "uproar ls metrics --json": JSON,
    "uproar clean runs --yes": "in tests/cli/test_store_command.py",
    "uproar --install-completion": "changes the shell of who runs it; tests/cli/test_completion.py",
    "uproar --show-completion": "asks which shell it is in; tests/cli/test_completion.py",
    "uproar run study.toml --ray auto --store /shared/study": CLUSTER,
    "uproar run study.toml --store s3://bucket/study --collect": CLUSTER,
    "uproar data get fashion-mnist": NO_NETWORK,
    "uproar data get cifar10": NO_NETWORK,
    "uproar data verify cifar10": "needs the data set",
    'uproar run --task "cifar10(train=10000, test=2000)" --data-root ~/sets': "needs the data set",
    "uproar run hooker2019-laptop": "needs the data set",
    "uproar report runs/study": "as `uproar report runs/digits`",
    'uproar run --plugin my_method.py --estimators "random,contrast_gradient,sg_sq(contrast_gradient)"': LIKE_RUN,
    'uproar explain --split both --study study.toml --store runs/study/store --estimators "ig,sg(grad)" '
    "--save maps.safetensors": "as with --task",
    "uproar score --task digits --estimators random,maps:grad.safetensors": "needs maps of all digits",
    'uproar run --plugin my_fill.py --fill "speckled(spread=0.2)"': PAGE,
    'uproar score --plugin my_fill.py --metrics "deletion(fill=mirror),insertion(fill=mirror)"': PAGE,
    "uproar run --plugin my_protocol.py --protocols roar,roar_grey": PAGE,
    'uproar run --plugin my_task.py --task "bars(train=512, test=128)" --estimators random,grad,ig': PAGE,
    'uproar audit runs/digits --plugin my_audit.py --audits "fill_decides(fill=blur)"': PAGE,
    "uproar run --plugin mine.py --task bars --fill mirror --protocols roar,roar_grey": PAGE,
    "uproar ls fills --plugin mine.py": PAGE,
    "uproar judge deletion road": "a minute of work; the judge is tried in Python",
    "uproar judge my_metric.py": "needs the file of another page",
    'uproar score --task "grid(digits, k=2)" --estimators grad,ig --metrics grid_pointing': "as with other tasks",
    'uproar score --task "grid(digits, k=2, cell=1)" --model "disconnected(k=2, cell=1)" --estimators grad,ig '
    "--metrics grid_pointing": "as with other tasks",
    "uproar audit runs/x --audits leakage": "retrains many networks; as `uproar audit runs/digits`",
}
"""Lines that are not run here: their options are read all the same. Line, reason."""
