"""`tenure demo`: the main job on real input, with a worker killed in the middle, and a report that counts."""
