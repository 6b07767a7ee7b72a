"""The job under test, as the supervisor sees it."""
