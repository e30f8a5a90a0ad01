"""The keeper: a process that renews the leases of one worker and releases them when it dies."""
