// From disk a browser may not read the found pages for excerpts of them; the list of results needs none.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
