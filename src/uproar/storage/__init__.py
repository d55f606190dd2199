"""Where results lie: backends (a folder, a bucket), files of single results, the store that holds them."""
