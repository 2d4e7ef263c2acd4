"""One statement, under one grant, over pinned artifacts, on record before and after.

`core` is the path of a query; `edge` and `serve` are its doors, `client` and `dbapi` their other ends; `local` runs
the same core in the caller's process. Nothing here can open the journal: it appends audit events and reads nothing.
"""
