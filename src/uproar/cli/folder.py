"""The folder of a run: what was run, and where its results are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uproar.data.places import also_look, given_roots
from uproar.errors import BadInput, StoreError
from uproar.place import write_file
from uproar.study.progress import Progress
from uproar.study.spec import Study, study_of

if TYPE_CHECKING:
    from uproar.runs import Run


def remember(folder: Path, study: Study, place: str, facts: dict[str, Any]) -> None:
    """Note in the folder of a run what was run and where its results are."""
    content = {
        "study": study.model_dump(mode="json"),
        "store": place if "://" in place else str(Path(place).expanduser().resolve()),
        "facts": facts,
        "data": given_roots(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / "run.json", json.dumps(content, indent=1).encode())
    except OSError as error:
        raise StoreError(f"Cannot write into {folder}: {error.strerror or error}.") from None


def recall(folder: Path) -> tuple[Study, str, dict[str, Any]]:
    """The study, store and facts of a run."""
    try:
        content = json.loads((folder / "run.json").read_text())
        place = str(content["store"])
        beside = folder / "store"
        also_look([str(root) for root in content.get("data", ())])
        moved = "://" not in place and beside.is_dir() and not Path(place).is_dir()
        return (
            study_of(content["study"]),
            str(beside) if moved else place,
            dict(content["facts"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(
            f"{folder} is not the folder of a run: it has no readable run.json."
        ) from None


def gathered(study: Study, place: str, state: Progress | None, facts: dict[str, Any]) -> Run:
    """What the store has of a study."""
    # tables and plots load as long as a small study runs: not before its workers have started
    from uproar.runs import collected

    return collected(study, place, state, facts)
