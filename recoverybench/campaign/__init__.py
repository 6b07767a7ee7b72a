"""Running a suite: its trials one after another, their reference, and what they share."""
