"""What a study or a scoring found: tables, verdicts, findings of audits, judgements of claims."""
