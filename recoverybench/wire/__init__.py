"""How messages travel between supervisor and workers; both sides import it, and nothing heavy.

`lines` bounds and decodes them. A connection over TCP begins with the `handshake`, after which
each message is in a frame that proves where it comes from (`frames`); `ledger` numbers messages,
so that a connection that was lost can be taken up again. docs/channel.md is about all of it.
"""
