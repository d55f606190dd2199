def write_report(results, folder):
    raise RuntimeError
