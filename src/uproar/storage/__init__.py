"""Storage of results: backends (a folder, a bucket), the file of one result, the store that holds all."""
