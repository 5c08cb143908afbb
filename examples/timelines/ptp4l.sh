#!/bin/sh
# Runs the real ptp4l on a host of the experiment with software timestamps. Neither end adjusts its
# clock. The slave feeds the host's timeline.
set -eu
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
server) role="priority1 10
uds_address $state/ptp4l" ;;
*) role="slaveOnly 1
slave_event_monitor $TIMELOOM_TIMELINES/ptp4l.monitor
uds_address $TIMELOOM_TIMELINES/ptp4l" ;;
esac
cat >"$state/ptp4l.conf" <<EOF
[global]
time_stamping software
network_transport UDPv4
free_running 1
$role
EOF
/usr/sbin/ptp4l -f "$state/ptp4l.conf" -i eth0 -m -q &
wait $!
