"""The storage gate: file operations of workers pass the supervisor, which decides about each.

A filter on system calls (seccomp user notification) needs no right, leaves nothing behind, and
sees what native code does. `gate` answers, `filecalls` and `seccomp` speak with the kernel,
`policies` decide, `waiting` holds who has no answer yet, `tried` says whether it works here.
"""
