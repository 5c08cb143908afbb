#!/bin/sh
# Runs the real ptp4l on a host of the experiment with software timestamps, as a grandmaster that
# does not adjust its clock, or as a slave.
set -eu
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
master) set -- --free_running=1 --priority1=10 ;;
slave) set -- -s --step_threshold=0.001 ;;
esac
/usr/sbin/ptp4l -S -4 -i eth0 -m -q --uds_address="$state/ptp4l" "$@" &
wait $!
