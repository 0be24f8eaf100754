#!/bin/sh
# A log that grows, followed as it is written: tail -f | onlinegcp update RUN -
#
#   sh examples/follow_a_log.sh [FOLDER]
#
# Beside it, `onlinegcp watch live.run` would show the page that moves with it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
cd "$folder"
python "$here/flights_files.py" months

# The run begins with January; what follows comes as JSON lines.
onlinegcp fit months/2013-01.parquet --time date --every 1d --modes dest,carrier,hour \
    --loss poisson --rank 3 --warm-start 14 -o live.run
python - <<'END'
import polars as pl
pl.read_parquet("months/2013-02.parquet").filter(pl.col("date").dt.day() <= 10).write_ndjson("all.jsonl")
END

# Somebody writes the log, a few thousand lines at a time.
: > events.jsonl
(
    split -l 2000 all.jsonl part-
    for part in part-*; do
        cat "$part" >> events.jsonl
        sleep 0.3
    done
) &
writer=$!

# A day is learned when the first event of the next one arrives. With --pid, tail ends with the
# writer; a real log has no end, and Ctrl-C finishes the day in flight.
tail -n +1 -s 0.2 -f --pid="$writer" events.jsonl | onlinegcp update live.run -

# The last day is still open: its rows wait in the run for the next update.
onlinegcp inspect live.run
onlinegcp anomalies live.run --all --top 3
