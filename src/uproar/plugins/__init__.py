"""Python files of the user: how they are loaded, and what their numbers depend on."""
