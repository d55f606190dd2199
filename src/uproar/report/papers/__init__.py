"""The figures and tables of the papers, drawn from a study's own numbers."""

from uproar.papers.figure import Beside, Exhibit, Missing, Seen, exhibit, exhibits_of
from uproar.papers.hooker2019 import figures as hooker2019
from uproar.papers.li2024 import figures as li2024
from uproar.papers.song2023 import figures as song2023
from uproar.papers.vandersmissen2023 import figures as vandersmissen2023

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
