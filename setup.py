"""The page of the package index: README.md with links that lead into the repository from anywhere.

Everything else about the package stands in pyproject.toml.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent


def index_page() -> str:
    """README.md, its links and pictures at the tag of this version in the repository that pyproject.toml names."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository, tag = project["urls"]["Repository"], f"v{project['version']}"
    text = (HERE / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", rf"![\1]({repository}/raw/{tag}/\2)", text)
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", rf"[\1]({repository}/blob/{tag}/\2)", text)


if __name__ == "__main__":
    setup(long_description=index_page(), long_description_content_type="text/markdown")
