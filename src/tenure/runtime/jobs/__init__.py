"""The jobs that a worker holds: leases, batches, outcomes and the job that a handler gets."""
