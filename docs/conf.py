"""The documentation site: `make docs` builds it from these pages, the notebooks and the package itself, offline."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools"))

import notebook_pages  # noqa: E402
import reference_pages  # noqa: E402

_project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _project["name"]
release = version = _project["version"]
author = project_copyright = "The uproar maintainers"

extensions = ["myst_parser"]
exclude_patterns = ["conf.py"]
highlight_language = "none"
nitpicky = False
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
html_title = f"{project} {release}"
html_show_copyright = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]

(HERE / "project").mkdir(exist_ok=True)
for _page in ("CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT"):  # pages of the repository's first folder
    _text = (ROOT / f"{_page}.md").read_text(encoding="utf-8").replace("](docs/", "](../")
    (HERE / "project" / f"{_page}.md").write_text(_text, encoding="utf-8")
reference_pages.write_pages(HERE / "reference")
notebook_pages.write_pages(ROOT / "examples" / "notebooks", HERE / "notebooks")
