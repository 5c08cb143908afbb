#!/bin/sh
# Runs the case with the attack, on one machine and spread over three agents (here processes of one
# machine that communicate over loopback), one after the other: both must show the sag.
#
#   examples/ieee13/agents.sh TIMELOOM DIRECTORY
#
# Then the same with computing that takes no time (`compute = "none"`): the agents act in turns, and
# all signals and events must be those of one machine.
#
# Difference in the first case: with agents every exchange with the grid is a pause that begins some milliseconds
# after its request, and the hosts run until then. Messages therefore have other instants, and the
# attack disconnects the storage at another output.
set -eu
timeloom=$1
directory=$2
scenario=$(dirname "$0")/ieee13.toml
mkdir -p "$directory"
key=$directory/agents.key
(umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$key")
agents=""
trap 'for agent in $agents; do kill "$agent" 2>/dev/null || true; done; wait' EXIT

set -- --set "placement.key_file=$(realpath "$key")" --set "placement.patience=20 s"
for agent in a:7751 b:7752 c:7753; do
    name=${agent%:*}
    place=127.0.0.1:${agent#*:}
    "$timeloom" agent --serve --timeline machine --listen "$place" --key-file "$key" \
        --name "ieee13-$name" --directory "$directory/agent-$name" 2>"$directory/agent-$name.log" &
    agents="$agents $!"
    set -- "$@" --set "placement.agents.$name.address=$place"
done
for node in controller:a s1:a attacker:b s2:b s3:b; do
    set -- "$@" --set "placement.nodes.${node%:*}=${node#*:}"
done
for name in a b c; do
    until grep -q 'waits for runs' "$directory/agent-$name.log"; do sleep 0.2; done
done
"$timeloom" run "$scenario" --replace -o "$directory/three" --set placement.default=c "$@"
"$timeloom" run "$scenario" --replace -o "$directory/one"
"$timeloom" compare "$directory/one" "$directory/three" || true

# These runs are UNTRUSTED (exit code 4): the attacker drops segments of TCP until the end.
in_turns() {
    name=$1
    shift
    "$timeloom" run "$scenario" --replace -o "$directory/$name" "$@" \
        --set time.mode=skip --set time.compute=none || [ $? -eq 4 ]
}
in_turns one-in-turns
key=placement.key_file=$(realpath "$key")
a=placement.agents.a.address=127.0.0.1:7751
c=placement.agents.c.address=127.0.0.1:7753
in_turns one-agent --set "$key" --set "$c" --set placement.default=c
in_turns two-agents --set "$key" --set "$a" --set "$c" --set placement.default=c \
    --set placement.nodes.controller=a --set placement.nodes.s1=a
in_turns three-agents --set placement.default=c "$@"
for name in one-agent two-agents three-agents; do
    "$timeloom" compare "$directory/one-in-turns" "$directory/$name" |
        grep 'they agree in every signal and event'
done
