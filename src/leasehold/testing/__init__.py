"""Help for tests: real servers to start, stop, freeze and kill."""
