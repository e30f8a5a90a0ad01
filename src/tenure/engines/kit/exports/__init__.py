"""How jobs leave a queue of a foreign format: the operations `export` and `end_export` of `engines.kit.moving`.

They call the functions of the engine's own lua/lib/moving.lua: `take`, `forget` and `back`.
"""
