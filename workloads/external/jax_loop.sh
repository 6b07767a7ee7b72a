#!/bin/sh
# Runs the training of one rank, and runs it again as long as it fails.
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    "$@" && exit 0
    echo "attempt $attempt failed"
done
exit 1
