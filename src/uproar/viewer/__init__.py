"""The viewer: a run in the browser, from verdict to evidence, as a folder of files or served while it runs."""
