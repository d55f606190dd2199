"""The papers that are reproduced: a folder each, with study files, claims, published numbers and figures.

`paper.toml` says what a paper is called and how its networks were trained, `claims.toml` what it says as tests of a
study; `figures.py` draws what it shows. Registries import the parts by pattern (`uproar.papers.*.figures`), so that no
other part of the package names a paper.
"""

import functools
import tomllib
from pathlib import Path

from uproar.extend import papers, study_files

for _file in sorted(Path(__file__).parent.glob("*/paper.toml")):
    _about = tomllib.loads(_file.read_text(encoding="utf-8"))
    _studies = functools.partial(study_files, str(_file))
    papers.add(_file.parent.name, _studies, title=_about["title"], about=_about["about"], file=str(_file))
