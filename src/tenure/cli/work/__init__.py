"""The commands `worker` and `dev`, and the processes that they start."""
