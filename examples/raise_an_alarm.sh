#!/bin/sh
# What a nightly job does: learn yesterday, and tell somebody if it was odd.
#
#   sh examples/raise_an_alarm.sh [FOLDER]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
cd "$folder"
python "$here/flights_files.py" months

# What is known so far: May and June.
onlinegcp fit months/2013-05.parquet months/2013-06.parquet --time date --every 1d --modes dest,carrier,hour \
    --loss poisson --rank 3 --warm-start 14 --quiet -o nightly.run

# Night after night. Exit code 4 means alarm, any other but 0 that something is wrong. What is odd
# about a day is not learned, so that it does not become the new normal; the rest is. A program that
# wants to know more gives update a command: --on-alarm 'notify --json', or --webhook URL.
for day in 3 4 5; do
    code=0
    onlinegcp update nightly.run months/2013-07.parquet --until "2013-07-0$day" \
        --hold-flagged --fail-on-alarm --quiet || code=$?
    case $code in
        0) ;;
        4) echo "ALARM"; onlinegcp anomalies nightly.run --since 2013-07-01 --top 1 ;;
        *) exit "$code" ;;
    esac
done
