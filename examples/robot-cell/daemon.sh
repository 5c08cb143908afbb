#!/bin/sh
# Kills the services that keep this host's time, and restarts them after the given seconds: the
# daemon of its timeline, and SNTP. A killed service notifies no client.
set -eu
timeloom=${TIMELOOM:-timeloom}
python=../../.venv/bin/python
# Only this host's processes: those in its network namespace.
here="--ns $$ --nslist net"
# shellcheck disable=SC2086
daemon=$(pgrep $here -f 'timeline serve --config' || true)
# shellcheck disable=SC2086
sntp=$(pgrep $here -f 'sntp.py' || true)
how=$(tr '\0' '\n' <"/proc/${sntp:-self}/cmdline" | tail -n 1)
# shellcheck disable=SC2086
kill -9 $daemon $sntp
sleep "$1"
if [ -n "$sntp" ]; then
    "$python" sntp.py "$how" &
fi
if [ -n "$daemon" ]; then
    # The daemon continues its journal, which lies in the directory where it was started.
    timeloom=$(realpath "$(command -v "$timeloom")")
    cd "$TIMELOOM_TIMELINES"
    exec "$timeloom" timeline serve --config "$TIMELOOM_TIMELINES/timelines.toml" \
        --directory "$TIMELOOM_TIMELINES"
fi
wait
