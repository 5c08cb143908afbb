#!/bin/sh
# Our own PTP, where every Sync is signed: the grandmaster, or the slave that tells the
# host's timeline of Syncs that held. A rogue has no key. Nobody touches a clock.
set -eu
keys=${TIMELOOM_TIMELINES:-.}/../keys
timeloom=${TIMELOOM:-timeloom}
# By UDP, since a switch hands the Ethernet frames for measuring a link to nobody.
common="-i eth0 --transport udp4 --sync-interval=-2"
signed="--auth inline-ed25519 --keys $keys"
case $1 in
gm) exec "$timeloom" ptp gm $common $signed/gm ;;
slave) exec "$timeloom" ptp slave $common $signed/plc --feed "$TIMELOOM_TIMELINES/ptp.feed" ;;
rogue) exec "$timeloom" ptp gm $common --priority1 1 ;;
esac
