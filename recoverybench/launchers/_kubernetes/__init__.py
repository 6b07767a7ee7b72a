"""What the launcher ``kubernetes`` is made of.

`settings` reads its file, `manifests` and `access` say what is sent (pure), `ends` reads what
became of a pod (pure); `api` speaks to the server and `ourselves` says who does, `cluster` makes
and deletes, `watching` follows the pods, `shell` runs a command in one, `preflight` says beforehand
what would not work, `pods` is the launcher itself, and `preview` what ``--dry-run`` writes.
"""
