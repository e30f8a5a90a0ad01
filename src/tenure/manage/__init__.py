"""What operators do: searches, changes of many jobs, overviews, checks of Redis, moves and cleaning."""
