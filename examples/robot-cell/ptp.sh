#!/bin/sh
# CELL_PTP selects the real ptp4l (`unsigned`), Timeloom's PTP with every Sync signed (`signed`), or
# nothing (any other value).
#
#   ptp.sh master | slave HOST | rogue
#
# A slave feeds its host's timeline. A rogue announces itself as the best master, on a host whose
# clock is wrong. None of them adjusts a clock.
set -eu
timeloom=${TIMELOOM:-timeloom}
keys=${TIMELOOM_TIMELINES:-.}/../keys
# A signing node has one neighbour on its link: one signed slave in this network.
slaves="left"

linuxptp() {
    state=$(mktemp -d)
    trap 'rm -rf "$state"' EXIT
    socket=$state/ptp4l
    more=""
    case $1 in
    slave)
        socket=$TIMELOOM_TIMELINES/ptp4l
        more="slaveOnly 1
slave_event_monitor $TIMELOOM_TIMELINES/ptp4l.monitor"
        ;;
    rogue) more="priority1 1" ;;
    master) more="priority1 100" ;;
    esac
    cat >"$state/ptp4l.conf" <<EOT
[global]
time_stamping software
network_transport L2
domainNumber 1
logAnnounceInterval -2
logSyncInterval -2
logMinDelayReqInterval -2
free_running 1
uds_address $socket
$more
EOT
    /usr/sbin/ptp4l -f "$state/ptp4l.conf" -i eth0 -m -q
}

# Over UDP, since a switch does not forward the Ethernet frames that measure a link.
signed() {
    "$timeloom" ptp "$@" -i eth0 --transport udp4 --sync-interval=-3 --announce-interval=-2
}

make_keys() {
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
}

case ${CELL_PTP:-none}-$1 in
none-*) exec sleep infinity ;;
unsigned-*) linuxptp "$1" & ;;
signed-master)
    make_keys
    signed gm --auth inline-ed25519 --keys "$keys/gm" &
    ;;
signed-slave)
    [ "$2" = left ] || exec sleep infinity
    until [ -d "$keys" ]; do sleep 0.05; done
    # The oscillator is not disciplined: it drifts from one Sync to the next.
    signed slave --auth inline-ed25519 --keys "$keys/$2" --feed "$TIMELOOM_TIMELINES/ptp.feed" \
        --jump-bound "1 ms" &
    ;;
signed-rogue) signed gm --priority1 1 & ;;
esac
wait
