"""Notebooks as pages of the documentation site, with the outputs they were stored with.

    python tools/notebook_pages.py examples/notebooks docs/notebooks         # the pages, which docs/conf.py makes
    python tools/notebook_pages.py --execute examples/notebooks              # run them and store their outputs

Executing needs nbclient and ipykernel (requirements-docs.lock). The tests run the code cells in a plain namespace.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any


def write_pages(notebooks: Path, folder: Path) -> list[Path]:
    """A Markdown page for each notebook of a folder, its pictures beside it; the paths of the pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for file in sorted(notebooks.glob("*.ipynb")):
        page = folder / f"{file.stem}.md"
        text = page_of(json.loads(file.read_text(encoding="utf-8")), file, folder)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
        pages.append(page)
    return pages


def page_of(notebook: dict[str, Any], file: Path, folder: Path) -> str:
    """A notebook as Markdown; its pictures are written into the folder."""
    parts = []
    for number, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_site_links(source))
            continue
        parts.append(f"```python\n{source}\n```")
        for place, output in enumerate(cell["outputs"]):
            parts.append(_output(output, folder / f"{file.stem}-{number}-{place}.png"))
    title, _, rest = parts[0].partition("\n")
    download = f"[Download this notebook](../../examples/notebooks/{file.name})."
    return "\n\n".join([title, download, rest.strip(), *parts[1:]]) + "\n"


def _site_links(text: str) -> str:
    """Links from the folder of the notebooks, as they lead from the folder of the pages."""
    return re.sub(r"\]\(\.\./\.\./docs/", "](../", text)


def _output(output: dict[str, Any], picture: Path) -> str:
    """What a cell showed: a picture, a table or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return f"![what the cell above shows]({picture.name})"
    if "text/html" in data:
        return "````{raw} html\n" + "".join(data["text/html"]) + "\n````"
    text = "".join(data.get("text/plain", output.get("text", ""))).rstrip()
    return f"```text\n{text}\n```"


def execute(file: Path) -> None:
    """Run a notebook in a kernel from top to bottom and store its outputs, without times and numbers of the run."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    with tempfile.TemporaryDirectory() as place:
        resources = {"metadata": {"path": place}}
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        for output in cell.get("outputs", []):
            output.get("metadata", {}).clear()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    nbformat.write(notebook, file)


if __name__ == "__main__":
    if sys.argv[1] == "--execute":
        for each in sorted(Path(sys.argv[2]).glob("*.ipynb")):
            execute(each)
            print(each)
    else:
        for each in write_pages(Path(sys.argv[1]), Path(sys.argv[2])):
            print(each)
