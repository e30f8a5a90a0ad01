"""What commands print: tables, facts, live pictures, queues, lanes and jobs."""
