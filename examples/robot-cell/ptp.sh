#!/bin/sh
# Where CELL_PTP says `unsigned`, the real ptp4l; where it says `signed`, our own PTP with
# every Sync signed; else nothing. A master, the slave of a host, which
# tells its timeline of what it hears, or a rogue: a master that says it is the best, on a host whose clock is wrong.
# Nobody touches a clock.
set -eu
timeloom=${TIMELOOM:-timeloom}
keys=${TIMELOOM_TIMELINES:-.}/../keys
slaves="planner left right p-planner p-left p-right"
case ${CELL_PTP:-none}-$1 in
unsigned-*)
    state=$(mktemp -d)
    trap 'rm -rf "$state"' EXIT
    case $1 in
    slave) role="slaveOnly 1
slave_event_monitor $TIMELOOM_TIMELINES/ptp4l.monitor
uds_address $TIMELOOM_TIMELINES/ptp4l" ;;
    rogue) role="priority1 1
uds_address $state/ptp4l" ;;
    *) role="priority1 100
uds_address $state/ptp4l" ;;
    esac
    cat >"$state/ptp4l.conf" <<EOT
[global]
time_stamping software
network_transport L2
domainNumber 1
logSyncInterval -2
logMinDelayReqInterval -2
free_running 1
$role
EOT
    /usr/sbin/ptp4l -f "$state/ptp4l.conf" -i eth0 -m -q &
    wait $!
    ;;
signed-master)
    mkdir -m 700 "$keys.new"
    "$timeloom" ptp keygen "$keys.new/ops" --authority
    "$timeloom" ptp keygen "$keys.new/gm" --name gm --clock 0200000000000001
    number=1
    for who in $slaves; do
        number=$((number + 1))
        "$timeloom" ptp keygen "$keys.new/$who" --name "$who" --clock "020000000000000$number"
    done
    "$timeloom" ptp sign --authority "$keys.new/ops/authority.key" --ring "$keys.new/ops/ring.toml" \
        --grandmaster gm "$keys.new"/*/node.pub
    for who in gm $slaves; do
        cp "$keys.new/ops/ring.toml" "$keys.new/ops/authority.pub" "$keys.new/$who/"
    done
    mv "$keys.new" "$keys"
    exec "$timeloom" ptp gm -i eth0 --transport udp4 --sync-interval=-2 --auth inline-ed25519 --keys "$keys/gm"
    ;;
signed-slave)
    until [ -d "$keys" ]; do sleep 0.05; done
    exec "$timeloom" ptp slave -i eth0 --transport udp4 --sync-interval=-2 --auth inline-ed25519 \
        --keys "$keys/$2" --feed "$TIMELOOM_TIMELINES/ptp.feed"
    ;;
signed-rogue) exec "$timeloom" ptp gm -i eth0 --transport udp4 --sync-interval=-2 --priority1 1 ;;
*) exec sleep infinity ;;
esac
