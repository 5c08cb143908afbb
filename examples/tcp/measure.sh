#!/bin/sh
# Runs iperf3 over 10 s of virtual time: undisturbed, paused for 100 ms every 400 ms, paused for 1 s
# every 2 s. Prints iperf3's results (rate, retransmissions).
#
#   examples/tcp/measure.sh TIMELOOM DIRECTORY
set -eu
timeloom=$1
directory=$2
scenario=$(dirname "$0")/tcp.toml
mkdir -p "$directory"

# measure LABEL PAUSES PAUSE_S RUN_S
measure() {
    "$timeloom" run "$scenario" --name "tcp-$$-$1" -o "$directory/$1" >"$directory/$1.out" 2>&1 &
    run=$!
    sleep 1.5
    count=0
    while [ "$count" -lt "$2" ]; do
        "$timeloom" pause --name "tcp-$$-$1" >/dev/null
        sleep "$3"
        "$timeloom" resume --name "tcp-$$-$1" >/dev/null
        sleep "$4"
        count=$((count + 1))
    done
    wait "$run" || true
    echo "$1 ($2 pauses of $3 s):"
    grep -E 'sender|receiver' "$directory/$1/logs/client.log"
}

measure none 0 0 0
measure short 20 0.1 0.3
measure long 4 1 1
