#!/bin/sh
# From a folder of files to answers: fit, update with newer files, then read what was learned.
#
#   sh examples/fit_update_report.sh [FOLDER]      # a new folder in /tmp unless one is given
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
cd "$folder"
python "$here/flights_files.py" months

# The first month, a slice per day. Columns become modes; the hour is one of them.
onlinegcp fit months/2013-01.parquet --time date --every 1d --modes dest,carrier,hour \
    --loss poisson --rank 4 --warm-start 14 -o flights.run

# Next month's file. Days that were learned are passed over, so a pattern would do as well.
onlinegcp update flights.run months/2013-02.parquet

onlinegcp inspect flights.run
onlinegcp components flights.run --top 3
onlinegcp anomalies flights.run --all --top 5

# One HTML file; with --json the numbers for a script.
onlinegcp report flights.run -o report.html --json

# Tables for other tools; the ending says which.
onlinegcp export flights.run factors -o factors.csv
onlinegcp export flights.run activations -o activations.parquet
onlinegcp export flights.run anomalies -o anomalies.jsonl
onlinegcp export flights.run ktensor -o model.npz

echo "Everything is in $folder"
