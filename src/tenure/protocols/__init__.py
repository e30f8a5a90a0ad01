"""The wire protocols: one entry each, with its name, its engine and the rights that it needs."""
