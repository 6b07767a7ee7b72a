#!/bin/sh
# The lighthouse, and a loop around each replica that starts it again when it fails.
# Usage: torchft.sh PYTHON REPLICAS PORT ARGUMENTS...
python=$1 replicas=$2 port=$3
shift 3
"$python" torchft_lighthouse.py --bind "127.0.0.1:$port" --min_replicas 2 \
    --heartbeat_timeout_ms 1000 --quorum_tick_ms 50 --join_timeout_ms 2000 2>/dev/null &
lighthouse=$!
export TORCHFT_LIGHTHOUSE="http://127.0.0.1:$port"
replica=0
loops=
while [ "$replica" -lt "$replicas" ]; do
    (
        export REPLICA_GROUP_ID=$replica
        for attempt in 1 2 3 4 5; do
            "$python" torchft_ddp.py "$@" && exit 0
        done
        exit 1
    ) &
    loops="$loops $!"
    replica=$((replica + 1))
done
code=0
for loop in $loops; do
    wait "$loop" || code=1
done
kill "$lighthouse"
exit "$code"
