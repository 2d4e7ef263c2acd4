"""House rules, generators and checks that `make check` runs; nothing of it is installed."""
