#!/bin/sh
# Runs the cell once for each fault, and makes one page of the results.
#
#   examples/robot-cell/faults.sh TIMELOOM DIRECTORY [FAULT…]
set -eu
timeloom=$(realpath "$1")
directory=$2
shift 2
here=$(dirname "$0")
[ $# -gt 0 ] || set -- calm reference daemon slow one-way pause rogue-unsigned rogue-signed
mkdir -p "$directory"
status=0
pages=""
for fault; do
    on="--set attack.$fault.enabled=true"
    ptp=none
    case $fault in
    calm) on="" ;;
    daemon) on="$on --set attack.daemon-plain.enabled=true" ;;
    slow) on="$on --set attack.slow-back.enabled=true" ;;
    one-way) on="--set attack.slow.enabled=true" ;;
    machine) on="" ;;
    machine-paused) on="--set attack.pause.enabled=true" ;;
    rogue-*) ptp=${fault#rogue-} ;;
    esac
    case $ptp in
    unsigned) hosts="planner left right" source='{type="ptp4l", monitor="ptp4l.monitor", socket="ptp4l", domain=1, reference_error="0 ns"}' ;;
    signed) hosts=left source='{type="ptp", feed="ptp.feed", asymmetry="20 us", stamp_error="20 us"}' ;;
    esac
    rm -rf "${directory:?}/$fault"
    # Names of hosts and of faults have no blanks, so that $on expands to several words.
    # shellcheck disable=SC2086
    set -- $on
    if [ "$ptp" != none ]; then
        for host in $hosts; do
            set -- "$@" --set "system.hosts.$host.timelines.cell.sources=[$source]"
        done
    fi
    case $fault in
    machine*)
        # The processor is emulated, so computing takes time: much of the machine's time for little
        # virtual time.
        machine=$("$here/machine/make" "$timeloom" "$directory/$fault")
        set -- "$@" --set time.compute=real --set "time.dilation=${CELL_DILATION:-20}" \
            --set time.tsc=emulate --set 'system.hosts.planner.address="10.0.0.9/24"' \
            --set "system.hosts.planner.programs=[]" --set "system.hosts.planner.machine=$machine"
        ;;
    esac
    # Name of the session, by which a program of the run finds it: two runs may be active at once.
    name=cell-$fault-$$
    echo "$fault: 30 s of virtual time"
    TIMELOOM=$timeloom CELL_RUN=$name CELL_PTP=$ptp "$timeloom" run "$here/cell.toml" --name "$name" \
        -o "$directory/$fault" "$@" >"$directory/$fault.out" 2>&1 || status=1
    grep -E '^(FAILED|stopped)|: FAILS' "$directory/$fault.out" | sed "s/^/$fault: /" || true
    pages="$pages $fault=$directory/$fault"
done
# shellcheck disable=SC2086
PYTHONPATH="$here/../../python" "$here/../../.venv/bin/python" "$here/page.py" "$directory/robot-cell.html" $pages
exit $status
