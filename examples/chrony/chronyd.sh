#!/bin/sh
# Runs the real chronyd on a host of the experiment: server or client.
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
allow 10.0.0.0/24' ;;
client) what='server 10.0.0.1 iburst minpoll 3 maxpoll 4
makestep 0.01 3
rtcsync' ;;
esac
cat >"$state/chrony.conf" <<EOF
$what
driftfile $state/drift
pidfile $state/pid
bindcmdaddress /
cmdport 0
user root
EOF
"$chronyd" -d -d -f "$state/chrony.conf" &
wait $!
