#!/bin/sh
# Records the results of record.c on a real kernel, in user-mode Linux: the kernel
# as a process, with its own clock. Nothing of this machine is changed.
#
#   apt-get download user-mode-linux; dpkg -x user-mode-linux_*.deb uml
#   ./record.sh uml/usr/bin/linux.uml > trace.txt
#
# Takes one minute. The kernel has HZ=100 and no PPS support.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/proc" "$root/dev" "$root/tmp"
cc -O1 -static -o "$root/init" "$here/record.c"
echo "# Linux $("$1" --version | tail -1), user-mode Linux; see record.sh"
TMPDIR="$root/tmp" "$1" mem=64M root=/dev/root rootfstype=hostfs rootflags="$root" init=/init rw quiet \
    con=null con0=null,fd:1 2>/dev/null | tr -d '\r' | sed -n '/^hz /,/^end/p'
