"""Harnesses: the programs that run turns. Each kind turns a turn's request into lines; `wire` says what lines mean."""
