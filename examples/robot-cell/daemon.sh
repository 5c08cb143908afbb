#!/bin/sh
# What keeps this host's time is killed, and started again after so many seconds: the
# daemon of its timeline, and SNTP. One that is killed tells nobody of anything.
set -eu
timeloom=${TIMELOOM:-timeloom}
python=../../.venv/bin/python
# Those of this host alone: they live in its network.
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
    exec "$timeloom" timeline serve --config "$TIMELOOM_TIMELINES/timelines.toml" \
        --directory "$TIMELOOM_TIMELINES"
fi
wait
