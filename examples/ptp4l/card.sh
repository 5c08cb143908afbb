#!/bin/sh
# Runs the real ptp4l on a host of the experiment with the hardware timestamps of the host's network
# card, whose clock it disciplines as a slave.
set -eu
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
master) set -- --priority1=10 ;;
slave) set -- -s --step_threshold=0.00002 ;;
esac
/usr/sbin/ptp4l -H -4 -i eth0 -m -q --uds_address="$state/ptp4l" --tx_timestamp_timeout=10000 \
    --logAnnounceInterval=-1 --logSyncInterval=-3 --logMinDelayReqInterval=-3 \
    --summary_interval=0 "$@" &
wait $!
