"""Journals to a trial record. Pure: no number is made in passing."""
