#!/bin/sh
# Runs the real chronyd on a host of the experiment: a server, or a client that only observes and
# adjusts nothing (-x).
#
# All its files are in a private directory, and it stays root: the experiment's hosts share this
# machine's files.
set -eu
# Location in Debian, or of the copy unpacked by `make packages-test`.
chronyd=/usr/sbin/chronyd
[ -x "$chronyd" ] || chronyd=../../.tools/chrony/usr/sbin/chronyd
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
server) what='local stratum 1
allow 10.0.0.0/24
bindcmdaddress /' ;;
# A client of this socket may request new measurements, as the host's timeline does after the host
# was held. chronyd creates the directory, and checks its permissions.
*) what="server 10.0.0.1 iburst minpoll 2 maxpoll 3
bindcmdaddress $TIMELOOM_TIMELINES/chrony/command" ;;
esac
cat >"$state/chrony.conf" <<EOF
$what
driftfile $state/drift
pidfile $state/pid
user root
EOF
"$chronyd" -x -d -d -f "$state/chrony.conf" &
wait $!
