"""What every page of ours is made of: style, policy, embedded data, templates and scripts.

Nothing here knows of trials. A page fetches nothing from anywhere and runs no script but
those that its policy names by their hashes.
"""
