#!/bin/sh
# Pauses hosts of the run for some seconds of its time: pause.sh SECONDS HOST…
# CELL_RUN is the run's name, as given to `timeloom run --name`.
set -eu
timeloom=${TIMELOOM:-timeloom}
seconds=$1
shift
for host; do
    "$timeloom" pause --name "$CELL_RUN" --host "$host"
done
sleep "$seconds"
for host; do
    "$timeloom" resume --name "$CELL_RUN" --host "$host"
done
