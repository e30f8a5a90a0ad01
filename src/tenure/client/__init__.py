"""The client: enqueues jobs, leases them by hand, reads and changes queues, jobs and workers."""
