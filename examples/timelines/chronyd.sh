#!/bin/sh
# Runs the real chronyd on a host of the experiment: a server, or a client that
# watches and steers nothing (-x).
#
# Everything that it writes goes to a directory of its own, and it stays root:
# the experiment's hosts share this machine's files.
set -eu
# Where Debian has it, or where `make packages-test` unpacks it.
chronyd=/usr/sbin/chronyd
[ -x "$chronyd" ] || chronyd=../../.tools/chrony/usr/sbin/chronyd
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
case $1 in
server) what='local stratum 1
allow 10.0.0.0/24
bindcmdaddress /' ;;
# Whoever comes by this socket may tell it to measure anew, as the host's timeline does
# when the host was held. chronyd makes the directory, and looks at who may enter it.
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
