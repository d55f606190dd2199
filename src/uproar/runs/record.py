"""run.json: what a run leaves in its folder about itself, checked when it is read.

Nothing of it is used before its structure is known to be right, whoever wrote it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from uproar.errors import BadInput, plainly
from uproar.paths import user_path
from uproar.runs.other_folders import RECORD, no_run

LARGEST = 20_000_000
"""Bytes of the file: a study of the largest size takes less."""


def _text(value: str) -> str:
    if "\0" in value:
        raise ValueError("has no NUL bytes")
    return value


Text = Annotated[str, AfterValidator(_text)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class WallTime(_Part):
    """The time that all sessions took, and how many began and ended."""

    seconds: Seconds = 0.0
    begun: Count = 0
    ended: Count = 0


class Facts(_Part):
    """What is noted of a run besides its study, in the order in which a page shows it."""

    command: Text = ""
    versions: dict[Text, Text] = Field(default_factory=dict)
    python: Text = ""
    machine: Text = ""
    wall: WallTime | None = None
    executor: Text = ""
    seconds: Seconds | None = None

    def given(self) -> dict[str, Any]:
        """What was noted, and nothing of what was not."""
        return self.model_dump(exclude_unset=True)


class Record(_Part):
    """The whole file."""

    study: dict[Text, Any]
    store: Text
    facts: Facts
    data: tuple[Text, ...] = ()
    weights: Text | None = None


def read_record(folder: Path) -> Record:
    """The record in the folder of a run."""
    file = user_path(folder) / RECORD
    try:
        if file.stat().st_size > LARGEST:
            raise BadInput(f"{file} is no record of a run: it has more than {LARGEST} bytes.")
        return Record.model_validate_json(file.read_bytes())
    except OSError:
        raise no_run(folder) from None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        what = f"{where} {plainly(problem['msg'])}".strip()
        raise BadInput(f"{folder} is not the folder of a run: its {RECORD} is damaged ({what}).") from None
