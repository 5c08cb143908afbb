#!/bin/sh
# Runs the real ptp4l, unsigned, in a separate domain: a master with this priority, or a slave that
# feeds the host's timeline. Neither adjusts a clock.
set -eu
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
slave) role="slaveOnly 1
slave_event_monitor $TIMELOOM_TIMELINES/ptp4l.monitor
uds_address $TIMELOOM_TIMELINES/ptp4l" ;;
*) role="priority1 $1
uds_address $state/ptp4l" ;;
esac
cat >"$state/ptp4l.conf" <<EOF
[global]
time_stamping software
network_transport L2
domainNumber 1
logSyncInterval -2
logMinDelayReqInterval -2
free_running 1
$role
EOF
/usr/sbin/ptp4l -f "$state/ptp4l.conf" -i eth0 -m -q &
wait $!
