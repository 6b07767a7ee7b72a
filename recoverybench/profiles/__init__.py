"""What profiled trials say: where the time of a restore and of a first step went."""
