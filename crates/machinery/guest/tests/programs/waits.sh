#!/bin/bash
# A shell's waits and pipelines; the same lines as `waits.c` prints. The clock
# is `date`, another program each time.
gate=$1
wait_ms=$2
seconds=$(printf '%d.%03d' $((wait_ms / 1000)) $((wait_ms % 1000)))

case_sleep() { sleep "$seconds"; }
case_pipeline() { (sleep "$seconds"; echo through) | tr '[:lower:]' '[:upper:]' | grep -q THROUGH; }
case_background() { sleep "$seconds" & wait $!; }
case_nested() { bash -c "sh -c 'sleep $seconds; exit 3'"; }
case_xargs() { echo "$seconds" | xargs -n 1 sleep; }
case_substitution() { [ "$(sleep "$seconds"; echo yes)" = yes ]; }
case_tail() { (sleep "$seconds"; echo end) | tail -n 1 >/dev/null; }
case_loop() { for _ in 1 2 3 4 5; do sleep "$(printf '0.%03d' $((wait_ms / 5)))"; done; }

run() {
  local begun ended ret
  begun=$(date +%s%N)
  "case_$1"
  ret=$?
  ended=$(date +%s%N)
  echo "sh_$1 ret=$ret want_ns=$((wait_ms * 1000000)) virtual_ns=$((ended - begun))"
}

exec 9<"$gate"
echo ready
cat <&9
exec 9<&-
for name in sleep pipeline background nested xargs substitution tail loop; do
  run "$name" &
done
wait
