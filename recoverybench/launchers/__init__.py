"""Launchers: how workers are started, signalled and seen to end. One file each."""
