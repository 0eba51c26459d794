#!/bin/sh
# Builds the demonstration and runs it with bin/mqd, which must be there: make
# demo builds it. The one argument is the file of lines to send, or nothing.
set -eu
file=${1:-}
case $file in
'' | /*) ;;
*) file=$PWD/$file ;;
esac
cd "$(dirname "$0")/../.."
CGO_ENABLED=0 go build -trimpath -o bin/mqd-demo ./test/demo
exec bin/mqd-demo --mqd bin/mqd --file "${file:-test/demo/data/alerts.txt}"
