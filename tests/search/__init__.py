"""Search: what is found, in which order, under which grant, and what is never told."""
