#!/bin/sh
# Runs the case with and without the attack, then demonstrates virtual time: the same scenario with
# a slower solver, with virtual time on and off.
#
#   examples/ieee13/demo.sh TIMELOOM DIRECTORY [LENGTH OF THE PROOF, e.g. "90 s"]
#
# Independent runs are executed in parallel: each mostly waits.
set -eu
timeloom=$1
directory=$2
length=${3:-26 s}
scenario=$(dirname "$0")/ieee13.toml

# run LABEL [--set …]: in the background, with its lines labelled
run() {
    label=$1
    shift
    mkdir -p "$directory/$label"
    rm -rf "${directory:?}/$label"
    (
        "$timeloom" run "$scenario" -o "$directory/$label" "$@" >"$directory/$label.out" 2>&1 || true
    ) &
    running="$running $!"
}

# Shows progress of background runs until all have ended.
follow() {
    for process in $running; do
        seconds=0
        while kill -0 "$process" 2>/dev/null; do
            sleep 1
            seconds=$((seconds + 1))
            [ $((seconds % 10)) -eq 0 ] || continue
            for label in "$@"; do
                printf '  %-12s %s\n' "$label" "$(grep ': virtual' "$directory/$label.out" | tail -n 1)"
            done
        done
    done
    running=""
    wait
}

running=""
mkdir -p "$directory"
echo "The case, 90 s of virtual time, with and without the attack:"
# At a dilation of 1/4 they take a quarter of the wall time. Each report says whether this machine
# kept up.
run attack --set time.dilation=0.25
run normal --set time.dilation=0.25 --set attack.dos.enabled=false
follow attack normal

echo "The proof, $length each: the solver slower by 0, 5 and 50 ms a call, virtual time on and off:"
for ms in 0 5 50; do
    for mode in virtual real; do
        run "$mode-$ms" --set attack.dos.enabled=false --set "time.duration=$length" --set "time.mode=$mode" \
            --set "simulation.plants.grid.config.slowdown_ns=$((ms * 1000000))" \
            --set 'simulation.plants.grid.record.every=10 ms'
    done
done
follow virtual-50 real-50

status=0
for label in attack normal; do
    grep -E '^(reached|FAILED|stopped|check)' "$directory/$label.out" | sed "s/^/$label: /"
    grep -q '"outcome": "done"' "$directory/$label/manifest.json" || status=1
done
printf 'report: '
"$timeloom" report "$directory/attack" --with "no attack=$directory/normal" \
    --proof-signal grid.storage.1.p --proof-tolerance 5 --proof-share 0.95 --proof-from "4 s" \
    --proof-on "+0 ms=$directory/virtual-0" --proof-on "+5 ms=$directory/virtual-5" --proof-on "+50 ms=$directory/virtual-50" \
    --proof-off "+0 ms=$directory/real-0" --proof-off "+5 ms=$directory/real-5" --proof-off "+50 ms=$directory/real-50" \
    --note "Proof: the set point of a phase moves by up to 15 kW in one control period of 100 ms; the tolerance is a third of that. It must hold for 95 % of the time, so that a single late wake-up of a busy machine does not decide." \
    -o "$directory/report.html"
exit $status
