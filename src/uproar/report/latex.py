"""Tables for LaTeX by `DataFrame.to_latex`, figures as PDF, and a document that takes them in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uproar.report.content import Chapter, Table
from uproar.report.formatting import clean

MAIN = "report.tex"
MATHS = {
    **{"−": "-", "±": r"\pm", "≈": r"\approx", "×": r"\times", "·": r"\cdot", "²": "^2", "µ": r"\mu", "τ": r"\tau"},
    **{"↑": r"\uparrow", "↓": r"\downarrow", "→": r"\rightarrow", "←": r"\leftarrow", "∞": r"\infty", "ℓ": r"\ell"},
    **{"✓": r"\checkmark", "▲": r"\blacktriangle"},
}
"""Characters that LaTeX prints in its mathematics."""
TEXTS = {"–": "--", "…": r"\ldots{}", "\u00a0": "~", "\u202f": r"\,", "“": "``", "”": "''", "’": "'", '"': "''"}
NAMED = {"<": "less", ">": "greater", "|": "bar", "\\": "backslash", "~": "asciitilde", "^": "asciicircum"}
SPECIAL = {
    **{letter: f"${sign}$" for letter, sign in MATHS.items()},
    **{letter: rf"\text{name}{{}}" for letter, name in NAMED.items()},
    **{letter: rf"\{letter}" for letter in "&%$#_{}"},
    **TEXTS,
}
"""Characters that LaTeX does not print as they are, or would read as commands."""


def escaped(words: object) -> str:
    """Words as LaTeX prints them, without backquotes; a letter beyond Latin becomes a question mark.

    >>> escaped("sg_sq(grad) & 50 %"), escaped("a{b}\\\\c")
    ('sg\\\\_sq(grad) \\\\& 50 \\\\%', 'a\\\\{b\\\\}\\\\textbackslash{}c')
    """
    return "".join(SPECIAL.get(c) or (c if ord(c) < 0x250 else "?") for c in clean(words).replace("`", ""))


def latex_files(title: str, chapters: Sequence[Chapter], figures: Mapping[str, bytes]) -> dict[str, bytes]:
    """The tables and figures of all chapters by place in a folder, the document last."""
    tables = {f"tables/{name}.tex": latex_table(table, name) for c in chapters for name, table in c.tables().items()}
    captions = {name: figure.title for chapter in chapters for name, figure in chapter.figures().items()}
    parts = [
        r"\documentclass[a4paper]{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage{amssymb,booktabs,graphicx}",
        r"\usepackage[margin=2cm]{geometry}",
        r"\begin{document}",
        rf"\section*{{{escaped(title)}}}",
    ]
    for chapter in chapters:
        heading = f"{chapter.name}: " if len(chapters) > 1 else ""
        quality = [] if chapter.quality is None else [chapter.quality.sentence]
        parts += [escaped(line) + "\n" for line in (heading + chapter.answer.sentence, *quality)]
    parts += [rf"\input{{{file.removesuffix('.tex')}}}" for file in tables]
    size = r"width=\linewidth,height=0.4\textheight,keepaspectratio"
    for name in figures:
        picture = rf"\includegraphics[{size}]{{figures/{name}.pdf}}"
        caption = rf"\caption{{{escaped(captions[name])}}}\label{{fig:{name}}}"
        parts.append(rf"\clearpage\begin{{figure}}\centering{picture}{caption}\end{{figure}}")
    document = "\n".join([*parts, r"\end{document}", ""])
    drawn = {f"figures/{name}.pdf": content for name, content in figures.items()}
    return {**{file: text.encode() for file, text in tables.items()}, **drawn, MAIN: document.encode()}


def latex_table(table: Table, name: str) -> str:
    """A table with its caption; one that is wider than the page is made smaller."""
    frame = table.frame.map(escaped).rename(columns=escaped)
    marks = "".join("r" if table.numeric(column) else "l" for column in range(len(frame.columns)))
    body = frame.to_latex(index=False, escape=False, column_format=marks).strip()
    fit = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"
    head = rf"\begin{{table}}\centering\caption{{{escaped(table.caption)}}}\label{{tab:{name}}}"
    return "\n".join([r"% needs \usepackage{amssymb,booktabs,graphicx}", head, f"{fit}{{{body}}}", r"\end{table}", ""])
