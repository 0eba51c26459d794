#!/usr/bin/env bash
# Installs the Kafka clients of clients.txt that are not written in Go, for the tests of
# this directory. Usage: install.sh [--apt] [--long] | --broker
#
# With --apt, and as root, it installs those of the operating system too; with --long what
# only tests of minutes use (-interop.long), 170 MB of Kafka Streams; with --broker nothing but Apache Kafka's broker, for make compare-kafka. Everything else
# goes into one directory, which MQD_INTEROP_DIR names (default: mqd-interop in the
# user's cache). Parts are installed side by side; each has a limit of time, may fail by
# itself, and is left alone where it is there already. Tests of a client that is missing
# say so and skip, so the status is 0 whatever is missing; it is 1 only for a wrong call.
set -u
cd "$(dirname "$0")" || exit 1

apt='' long=''
for arg; do
	case "$arg" in
	--apt) apt=1 ;;
	--long) long=1 ;;
	*)
		[ "$*" = --broker ] && break
		echo "usage: install.sh [--apt] [--long] | --broker" >&2
		exit 1
		;;
	esac
done

dir=${MQD_INTEROP_DIR:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mqd-interop}
limit=200 # seconds, of each part
broker=3.9.1 # Apache Kafka's; it is the stamp of its part
mkdir -p "$dir" || exit 0

# Another run may be at it. What it has installed is there when it is through.
exec 9>"$dir/lock"
if command -v flock >/dev/null && ! flock -w 60 9; then
	echo "interop: another run holds $dir: nothing is installed"
	exit 0
fi

version() { awk -v client="$1" '$1 == client { print $3 }' clients.txt; }

# need PROGRAM...: says which program is missing.
need() {
	local program
	for program; do
		command -v "$program" >/dev/null || {
			echo "$program is not installed"
			return 1
		}
	done
}

# reason LOG: the line that says why something failed.
reason() {
	sed $'s/\e\\[[0-9;]*m//g' "$1" | grep -v '^ *$' >"$1.plain"
	{ grep -m 1 -iE 'error|^E:' "$1.plain" || tail -n 1 "$1.plain" | grep . || echo "no answer"; } | cut -c 1-300
	rm -f "$1.plain"
}

# part NAME PINS COMMAND...: has a command fill the directory of a part, where what is
# there is not what the pins say. A part is whole when it has its stamp.
part() {
	local name=$1 pins=$2 log="$dir/$1.log" start=$SECONDS
	shift 2
	if [ "$(cat "$dir/$name/stamp" 2>/dev/null)" = "$pins" ]; then
		echo "interop: $name: is there"
		return
	fi
	rm -rf "${dir:?}/$name"
	mkdir -p "$dir/$name"
	if timeout --kill-after=10s "$limit" "$BASH" -c "$(declare -f need version "$1"); $*" >"$log" 2>&1 9>&- </dev/null; then
		printf '%s\n' "$pins" >"$dir/$name/stamp"
		echo "interop: $name: installed in $((SECONDS - start)) s"
	else
		echo "interop: $name: MISSING, after $((SECONDS - start)) s: $(reason "$log")"
	fi
}

# wheels NAME PACKAGE...: a virtual environment with what is there built already.
wheels() {
	need python3 || return
	local name=$1
	shift
	python3 -m venv "$dir/$name" &&
		"$dir/$name/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@"
}

# A Node.js of its own comes with it, for the one of the system may be too old.
node() {
	need npm || return
	local kind
	case "$(uname -m)" in
	x86_64) kind=x64 ;;
	aarch64) kind=arm64 ;;
	*)
		echo "no Node.js for $(uname -m)"
		return 1
		;;
	esac
	echo '{"private": true}' >"$dir/node/package.json"
	npm install --fetch-retries=1 --prefix "$dir/node" --no-audit --no-fund --no-progress --loglevel=error "node-linux-$kind@$1" "${@:2}"
}

# jars NAME ARTIFACT VERSION: a part of Apache Kafka with what it needs.
jars() {
	need java mvn || return
	cat >"$dir/$1/pom.xml" <<-POM
		<project xmlns="http://maven.apache.org/POM/4.0.0">
		  <modelVersion>4.0.0</modelVersion>
		  <groupId>interop</groupId><artifactId>$1</artifactId><version>1</version>
		  <dependencies>
		    <dependency><groupId>org.apache.kafka</groupId><artifactId>$2</artifactId><version>$3</version></dependency>
		  </dependencies>
		</project>
	POM
	mvn -B -q -ntp -f "$dir/$1/pom.xml" "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies" "-DoutputDirectory=$dir/$1/jars"
}

# system: those of the operating system. What is loaded is loaded within a limit; what
# then writes to the system is not cut off.
system() {
	local log="$dir/system.log" start=$SECONDS packages=(kcat python3-confluent-kafka python3-kafka python3-lz4 python3-snappy python3-zstandard) missing=() p
	for p in "${packages[@]}"; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
	done
	if [ ${#missing[@]} = 0 ]; then
		echo "interop: system: is there"
		return
	fi
	export DEBIAN_FRONTEND=noninteractive
	local get=(apt-get -qq -y -o DPkg::Lock::Timeout=30 --no-install-recommends)
	if {
		timeout --kill-after=10s 60s "${get[@]}" update
		timeout --kill-after=10s 120s "${get[@]}" --download-only install "${missing[@]}" && "${get[@]}" --no-download install "${missing[@]}"
	} >"$log" 2>&1 9>&- </dev/null; then
		echo "interop: system: ${missing[*]} installed in $((SECONDS - start)) s"
	else
		echo "interop: system: MISSING ${missing[*]}, after $((SECONDS - start)) s: $(reason "$log")"
	fi
}

export dir
if [ "${1:-}" = --broker ]; then
	part apache-kafka "$broker" jars apache-kafka kafka_2.13 "$broker"
	exit
fi
python=$(python3 -c 'import sys; print(sys.executable, sys.version.split()[0])' 2>/dev/null)
java3=$(version java-3) java4=$(version java-4) streams3=$(version streams-3) streams4=$(version streams-4)
node_pins="24.22.3 kafkajs@$(version kafkajs) kafkajs-snappy@1.1.0 @platformatic/kafka@$(version platformatic-kafka) lz4-napi@2.10.0"
codecs="lz4==4.4.5 zstandard==0.25.0 python-snappy==0.7.3"

if [ -n "$apt" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	system &
fi
part confluent-kafka "$python confluent-kafka==$(version confluent-kafka)" wheels confluent-kafka "confluent-kafka==$(version confluent-kafka)" &
part kafka-python "$python kafka-python==$(version kafka-python) $codecs" wheels kafka-python "kafka-python==$(version kafka-python)" $codecs &
part node "$node_pins" node $node_pins &
# One after the other, because they write to one local repository.
(
	limit=110
	part java-3 "$java3" jars java-3 kafka-clients "$java3"
	part java-4 "$java4" jars java-4 kafka-clients "$java4"
	if [ -n "$long" ]; then
		part streams-4 "$streams4" jars streams-4 kafka-streams "$streams4"
		part streams-3 "$streams3" jars streams-3 kafka-streams "$streams3"
	fi
) &
wait
