#!/bin/sh
# Timeloom's PTP with every Sync signed: the grandmaster, or the slave that feeds the host's
# timeline with valid Syncs. A rogue has no key. None of them adjusts a clock.
set -eu
keys=${TIMELOOM_TIMELINES:-.}/../keys
timeloom=${TIMELOOM:-timeloom}
# Over UDP, since a switch does not forward the Ethernet frames that measure a link.
common="-i eth0 --transport udp4 --sync-interval=-2"
signed="--auth inline-ed25519 --keys $keys"
case $1 in
gm) exec "$timeloom" ptp gm $common $signed/gm ;;
slave) exec "$timeloom" ptp slave $common $signed/plc --feed "$TIMELOOM_TIMELINES/ptp.feed" ;;
rogue) exec "$timeloom" ptp gm $common --priority1 1 ;;
esac
