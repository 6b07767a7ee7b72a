"""What workers run on beside the supervisor's own interpreter: other releases, each measured by
the same code. `prepare.prepare` makes those that a suite asks for.
"""
