"""The figures and tables of the papers, drawn from a study's own numbers."""

from uproar.report.papers import hooker2019, li2024, song2023, vandersmissen2023
from uproar.report.papers.base import Beside, Exhibit, Missing, Seen, exhibit, exhibits_of

__all__ = [
    "Beside",
    "Exhibit",
    "Missing",
    "Seen",
    "exhibit",
    "exhibits_of",
    "hooker2019",
    "li2024",
    "song2023",
    "vandersmissen2023",
]
