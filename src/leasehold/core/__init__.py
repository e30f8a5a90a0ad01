"""The vocabulary of Leasehold: values, the engine interface, errors, limits. Pure: no I/O."""
