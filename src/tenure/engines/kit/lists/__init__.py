"""What formats share that have one list of waiting jobs, and a record for each job that Tenure holds or keeps.

The engine's own Lua has what its wire format needs: see lua/lib/held.lua of an engine for the functions that the shared
operations call.
"""
