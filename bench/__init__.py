"""Tenure beside its peers: the same jobs, the same machine, each queue in an environment of its own."""
