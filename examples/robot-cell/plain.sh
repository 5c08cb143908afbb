#!/bin/sh
# What keeps a plain clock: SNTP; or, in a run with PTP, the real ptp4l, which steers it.
set -eu
case ${CELL_PTP:-none} in
none) exec ../../.venv/bin/python sntp.py 10.0.0.1 ;;
*) exec ./ptp.sh plain ;;
esac
