"""The kit: what engines are composed of, and the Lua that they share. It knows no engine."""
