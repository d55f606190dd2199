"""`uproar claims`: what became of the claims of papers in a run."""

from __future__ import annotations

from typing import Annotated

from uproar.cli.checks import check_run
from uproar.cli.console import some
from uproar.cli.data import DataRoot
from uproar.cli.json_output import add_to_json
from uproar.cli.options import Moved, RunFolder, Stored, Trust
from uproar.cli.options import names as names_option
from uproar.cli.progress import watched


def claims(
    folder: RunFolder,
    names: Annotated[
        list[str] | None,
        names_option(
            "--claims",
            kind="claims",
            text="Papers or single claims, see uproar ls claims",
            default="the study's own, else all",
        ),
    ] = None,
    weights: Moved = None,
    store: Stored = None,
    trust: Trust = False,
    data_root: DataRoot = None,
) -> int:
    """Test the claims of papers on the results of a run: n, effect, interval, outcome. Nothing is run."""
    check_run(folder)
    from uproar.claims import claims_named, judge, papers_with_claims  # torch and tables load slowly
    from uproar.cli.next_steps import command, print_next
    from uproar.cli.print_claims import print_claims
    from uproar.results.claim_outcome import claims_table
    from uproar.runs.folder import read_run
    from uproar.runs.open import run_in

    study, place, facts = read_run(folder, weights, store, trust)
    chosen = some("--claims", names, study.claims or list(papers_with_claims()))
    claims_named(chosen)  # an unknown name is refused before results are collected
    with watched(f"collecting the results of {folder}"):
        judged = judge(run_in(folder, study, place, facts), chosen)
    add_to_json(claims=claims_table(judged))
    print_claims(judged)
    page = f"{command('report', folder, '--markdown', 'FOLDER')} keeps them as a page"
    print_next(page if study.claims else f'claims = ["{chosen[0]}"] in a study puts them into its report')
    return 0
