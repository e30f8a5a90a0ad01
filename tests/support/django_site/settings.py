"""The settings of the project."""

import os

SECRET_KEY = "for tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "tests.support.django_site.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "tenure.integrations.django",
    "tests.support.django_site",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("TEST_DATABASE", ":memory:")}}
TASKS = {"default": {"BACKEND": "tenure.integrations.django.TenureBackend", "QUEUES": ["default", "mails"]}}
USE_TZ = True
if "TEST_DATABASE" in os.environ:
    LOGGING = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"own": {"format": "own-format %(message)s"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "own"}},
        "root": {"handlers": ["console"], "level": "INFO"},
    }
else:
    LOGGING_CONFIG = None  # the log of the tests stays as it is
