# Plays a tone into a sink that nobody hears, beside a load, and prints in percent how many cycles of the graph the player missed:
# the errors that pw-top counts. A cycle of 256 frames at 48 kHz lasts 5.3 ms, and nobody here has a real-time priority.
#
#     sh audio.sh SECONDS [POLICY ... --] LOAD ...
#
# POLICY is a command that starts another one with a scheduling policy, such as "chrt --fifo 1".
set -eu
seconds=$1
shift
policy=
while [ "$1" != -- ]; do
	policy="$policy $1"
	shift
done
shift

dir=$(mktemp -d)
started=
end() {
	kill $started || true
	wait
	rm -r "$dir"
}
trap end EXIT
export XDG_RUNTIME_DIR="$dir" HOME="$dir"

# What a desktop has, but for the modules that ask for real-time priorities, and a sink without a sound card.
cat >"$dir/pipewire.conf" <<'CONF'
context.properties = {
    core.daemon = true
    core.name = pipewire-0
    default.clock.rate = 48000
    default.clock.quantum = 256
    default.clock.min-quantum = 256
    default.clock.max-quantum = 256
    support.dbus = false
}
context.spa-libs = {
    audio.convert.* = audioconvert/libspa-audioconvert
    support.* = support/libspa-support
}
context.modules = [
    { name = libpipewire-module-protocol-native }
    { name = libpipewire-module-profiler }
    { name = libpipewire-module-metadata }
    { name = libpipewire-module-spa-node-factory }
    { name = libpipewire-module-client-node }
    { name = libpipewire-module-access args = { } }
    { name = libpipewire-module-adapter }
    { name = libpipewire-module-link-factory }
    { name = libpipewire-module-session-manager }
]
context.objects = [
    { factory = adapter
      args = { factory.name = support.null-audio-sink node.name = null-sink media.class = Audio/Sink audio.position = [ FL FR ] } }
]
CONF
python3 - "$dir/tone.wav" <<'PYTHON'
import math, struct, sys, wave
with wave.open(sys.argv[1], "wb") as tone:
    tone.setnchannels(2)
    tone.setsampwidth(2)
    tone.setframerate(48000)
    second = b"".join(struct.pack("<hh", *[int(8000 * math.sin(n * 2 * math.pi * 440 / 48000))] * 2) for n in range(48000))
    tone.writeframes(second * 120)
PYTHON

fail() {
	echo "$1" >&2
	cat "$dir/log" >&2
	exit 1
}

# Waits until a command succeeds.
await() {
	tries=0
	until sh -c "$1"; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || fail "waited in vain for: $1"
		sleep 0.1
	done
}
start() {
	"$@" >>"$dir/log" 2>&1 &
	started="$started $!"
}
start $policy pipewire -c "$dir/pipewire.conf"
await "[ -S $dir/pipewire-0 ]"
start $policy wireplumber -p main-systemwide
start $policy pw-cat --playback --latency 256 "$dir/tone.wav"
player=$!
await "pw-link -l | grep -q 'null-sink:playback_FR'"
start "$@"
load=$!
sleep 2

# Errors of the player so far, and the clock in ms. The first list has no figures yet.
count() {
	errors=$(pw-top -b -n 2 | awk '$NF == "pw-cat" { errors = $9 } END { print errors }')
	[ -n "$errors" ] || fail "pw-top does not know the player"
	echo "$errors $(($(date +%s%N) / 1000000))"
}
before=$(count)
sleep "$seconds"
after=$(count)
running=$(ps -o stat= -p "$player" "$load" | grep -c '^[^Z]')
[ "$running" -eq 2 ] || fail "the player or the load has ended"
echo "$before $after" | awk '{ cycles = ($4 - $2) * 48 / 256; printf "%.2f\n", 100 * ($3 - $1) / cycles }'
