"""The command line and application layer: on top of every plane, below none.

`main` is the entry point. Each command is a module here; `commands` names them all and imports one only when it runs,
so that `polyc --help` and a refused argument cost no engine.
"""
