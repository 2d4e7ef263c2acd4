"""The HTTP face of Control: a table of operations, one shape of errors, one order of checks. Nothing here decides."""
