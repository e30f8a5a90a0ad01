"""The vocabulary of Tenure: values, the engine interface, errors, limits. Pure: no I/O."""
