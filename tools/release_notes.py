"""The notes of a release, from the changelog.

python tools/release_notes.py            # of the version in pyproject.toml
python tools/release_notes.py 0.1.0      # of another; Unreleased for what the next one will have
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes(version: str, changelog: str, repository: str) -> str:
    """The section of a version, with links that lead into the repository at its tag; refused if there is none.

    >>> notes("1.2.0", "# Changelog\\n\\n## Unreleased\\n\\n## 1.2.0\\n\\n- See [how](docs/how.md).\\n\\n## 1.1.0\\n", "https://x.org/r")
    '- See [how](https://x.org/r/blob/v1.2.0/docs/how.md).\\n'
    """
    sections = dict(re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", changelog, flags=re.M | re.S))
    if version not in sections:
        raise SystemExit(f"CHANGELOG.md has no section {version}; it has {', '.join(sections)}.")
    if not sections[version].strip():
        raise SystemExit(f"The section {version} of CHANGELOG.md is empty: say what a user notices.")
    base = f"{repository}/blob/{'main' if version == 'Unreleased' else f'v{version}'}"
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({base}/\1)", sections[version]).strip() + "\n"


def main() -> None:
    """Print the notes of the version asked for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = sys.argv[1].removeprefix("v") if len(sys.argv) > 1 else project["version"]
    print(notes(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), project["urls"]["Repository"]), end="")


if __name__ == "__main__":
    main()
