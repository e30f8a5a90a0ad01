"""The vocabulary of Leasehold: values, the engine interface, errors and limits. Pure: no I/O, imports nothing of ours."""
