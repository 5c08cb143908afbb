#!/bin/sh
# Timeloom's PTP with every Sync signed: the grandmaster, or the slave that feeds the host's
# timeline with valid Syncs. A rogue has no key. None of them adjusts a clock.
set -eu
keys=${TIMELOOM_TIMELINES:-.}/../keys
timeloom=${TIMELOOM:-timeloom}
# Over UDP, since a switch does not forward the Ethernet frames that measure a link.
ptp() {
    role=$1
    shift
    exec "$timeloom" ptp "$role" -i eth0 --transport udp4 --sync-interval=-2 "$@"
}
case $1 in
gm) ptp gm --auth inline-ed25519 --keys "$keys/gm" ;;
slave) ptp slave --auth inline-ed25519 --keys "$keys/plc" --feed "$TIMELOOM_TIMELINES/ptp.feed" ;;
rogue) ptp gm --priority1 1 ;;
esac
