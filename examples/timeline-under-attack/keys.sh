#!/bin/sh
# Makes the keys of the signed clocks: an authority, its grandmaster, and the slave.
set -eu
timeloom=${TIMELOOM:-timeloom}
at=$TIMELOOM_TIMELINES/../keys
mkdir -m 700 "$at"
"$timeloom" ptp keygen "$at/ops" --authority
"$timeloom" ptp keygen "$at/gm" --name gm --clock 0200000000000001
"$timeloom" ptp keygen "$at/plc" --name plc --clock 0200000000000002
"$timeloom" ptp sign --authority "$at/ops/authority.key" --ring "$at/ops/ring.toml" \
    --grandmaster gm "$at/gm/node.pub" "$at/plc/node.pub"
for who in gm plc; do
    cp "$at/ops/ring.toml" "$at/ops/authority.pub" "$at/$who/"
done
echo keys made
# Programs that start after this one require that it is still running.
exec sleep infinity
