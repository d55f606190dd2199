"""LaTeX for papers: tables with booktabs, names escaped, and a document that takes them and the figures in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from uproar.report.formatting import clean

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "▲": r"$\blacktriangle$",
    "▼": r"$\blacktriangledown$",
    "○": r"$\circ$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "\u00a0": "~",
    "\u202f": r"\,",
    "“": "``",
    "”": "''",
    "’": "'",
    "²": r"$^2$",
    "µ": r"$\mu$",
}
"""Characters that LaTeX would read as commands, or not at all."""


def escaped(words: object) -> str:
    """Words as LaTeX prints them; a letter beyond Latin becomes a question mark.

    >>> escaped("sg_sq(grad) & 50 %"), escaped("a{b}\\\\c")
    ('sg\\\\_sq(grad) \\\\& 50 \\\\%', 'a\\\\{b\\\\}\\\\textbackslash{}c')
    """
    letters = (SPECIAL.get(c) or (c if ord(c) < 0x250 else "?") for c in clean(words))
    return "".join(letters)


def code(name: object) -> str:
    """A name as it is typed.

    >>> code("sg_sq(grad)")
    '\\\\texttt{sg\\\\_sq(grad)}'
    """
    return rf"\texttt{{{escaped(name)}}}"


def latex_table(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str) -> str:
    """A table; heads that start with > are of numbers and stand at the right. Cells are LaTeX already.

    One that is wider than the page is made smaller.

    >>> print(latex_table(["name", ">n"], [["a", "1"]], "All.", "all"))
    % needs \\usepackage{booktabs,graphicx}
    \\begin{table}
    \\centering
    \\caption{All.}
    \\label{tab:all}
    \\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{\\begin{tabular}{lr}
    \\toprule
    name & n \\\\
    \\midrule
    a & 1 \\\\
    \\bottomrule
    \\end{tabular}}
    \\end{table}
    """
    marks = "".join("r" if head.startswith(">") else "l" for head in heads)
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{label}}}",
        rf"\resizebox{{\ifdim\width>\linewidth\linewidth\else\width\fi}}{{!}}{{\begin{{tabular}}{{{marks}}}",
        r"\toprule",
        _row([head.removeprefix(">") for head in heads]),
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def latex_document(title: str, remarks: Sequence[str], tables: Sequence[str], figures: Mapping[str, str]) -> str:
    """A document that takes in the tables and figures, by file; `figures` has a caption for each."""
    parts = [
        r"\documentclass[a4paper]{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage{amssymb,booktabs,graphicx}",
        r"\usepackage[margin=2cm]{geometry}",
        r"\begin{document}",
        rf"\section*{{{escaped(title)}}}",
        *(escaped(remark) + "\n" for remark in remarks),
        r"\small",
    ]
    parts += [rf"\input{{{file.removesuffix('.tex')}}}" for file in tables]
    parts.append(r"\clearpage")
    for file, caption in figures.items():
        size = r"width=\linewidth,height=0.4\textheight,keepaspectratio"
        parts += [
            r"\begin{figure}",
            r"\centering",
            rf"\includegraphics[{size}]{{{file}}}",
            rf"\caption{{{escaped(caption)}}}",
            rf"\label{{fig:{label_of(file)}}}",
            r"\end{figure}",
            r"\clearpage",
        ]
    return "\n".join([*parts, r"\end{document}", ""])


def label_of(file: str) -> str:
    """A label from a file name.

    >>> label_of("figures/roar-curves.pdf")
    'roar-curves'
    """
    return re.sub(r"[^A-Za-z0-9-]+", "-", file.rpartition("/")[2].partition(".")[0])
