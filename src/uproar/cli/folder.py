"""The folder of a run: what was run, and where its results are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.data.places import also_look, given_roots
from uproar.errors import BadInput, StoreError
from uproar.paths import user_path
from uproar.place import write_file
from uproar.plugins import source_hash
from uproar.study.progress import Progress
from uproar.study.shipped import shipped, summary
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.report.result_page import Told
    from uproar.runs import Run


FILE = "study.toml"
"""The study as its author wrote it, where it was a file."""


def remember(
    folder: Path, study: Study, place: str, facts: dict[str, Any], file: str | None = None
) -> None:
    """Note in the folder of a run what was run and where its results are; `file` is the text of the study file."""
    content = {
        "study": study.model_dump(mode="json"),
        "store": place if "://" in place else str(user_path(place).resolve()),
        "facts": facts,
        "data": given_roots(),
        "weights": None if study.weights is None else source_hash(study.weights),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "run.json", json.dumps(content, indent=1).encode())
        if file is not None:
            write_file(folder / FILE, file.encode())
    except OSError as error:
        raise StoreError(f"Cannot write into {folder}: {error.strerror or error}.") from None


def recall(folder: Path, weights: str | None = None) -> tuple[Study, str, dict[str, Any]]:
    """The study, store and facts of a run; `weights` says where its file of weights lies now."""
    try:
        content = json.loads((folder / "run.json").read_text())
        place = str(content["store"])
        beside = folder / "store"
        also_look([str(root) for root in content.get("data", ())])
        gone = "://" not in place and not Path(place).is_dir()
        if gone and not beside.is_dir():
            raise BadInput(
                f"The results of {folder} were in {place}, which is not there: put that folder back, or move it to "
                f"{beside}."
            )
        study = _given(study_of(content["study"]), weights, content.get("weights"))
        return study, str(beside) if gone else place, dict(content["facts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{folder} is not the folder of a run: it has no readable run.json."
        ) from None


def earlier(folder: Path) -> dict[str, Any]:
    """The facts of the sessions before this one; `wall` is the time they took, and how many began and ended."""
    try:
        facts = dict(json.loads((folder / "run.json").read_text())["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        return {"wall": {"seconds": 0.0, "begun": 0, "ended": 0}}
    if "wall" not in facts:
        ended = int("seconds" in facts)
        facts["wall"] = {"seconds": facts.get("seconds", 0.0), "begun": 1, "ended": ended}
    return facts


def told_of(folder: Path, study: Study) -> Told:
    """What a page says of a run beside its results: the study file, as it was run or as it comes with the package."""
    from uproar.report.result_page import Told

    kept = folder / FILE
    known = shipped()
    file = kept if kept.is_file() else known.get(study.name)
    content = "" if file is None else file.read_text(encoding="utf-8")
    return Told(summary(content), content)


def _given(study: Study, weights: str | None, known: str | None) -> Study:
    """The study of a run with its file of weights where it lies now; another file is refused."""
    if weights is not None:
        if study.weights is None:
            raise BadInput("The networks of this run were trained by it: leave out --weights.")
        study = study.with_changes(weights=weights)
    study.check_files()
    if weights is not None and known not in (None, source_hash(weights)):
        raise BadInput(f"The run had other weights than those in {weights}.")
    return study


def gathered(study: Study, place: str, state: Progress | None, facts: dict[str, Any]) -> Run:
    """What the store has of a study."""
    # tables and plots load as long as a small study runs: not before its workers have started
    from uproar.runs import collected

    return collected(study, place, state, facts)
