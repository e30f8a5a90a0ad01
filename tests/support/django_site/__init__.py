"""A Django project for tests."""
