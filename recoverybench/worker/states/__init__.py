"""State sources: where the state comes back from after a failure. One file each."""
