"""The grammar of the command line, by what commands are for; nothing here imports a plane."""
