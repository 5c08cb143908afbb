#!/bin/sh
# The daemon of this host's timeline is killed, and after so many seconds another is
# started in its place. One that is killed tells nobody of anything.
set -eu
timeloom=${TIMELOOM:-timeloom}
at=$TIMELOOM_TIMELINES
kill -9 "$(pgrep -f "timeline serve --config $at/")"
sleep "$1"
exec "$timeloom" timeline serve --config "$at/timelines.toml" --directory "$at"
