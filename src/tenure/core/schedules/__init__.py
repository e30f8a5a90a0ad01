"""Schedules: when they are due, which tick is next, and the values that users and engines exchange."""
