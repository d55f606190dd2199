"""Results of studies and scores: tables, one view per task and model, findings of audits, outcomes of claims."""
