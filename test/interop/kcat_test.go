package interop

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kcat runs it, with standard input, and returns what it writes.
func kcat(t *testing.T, ctx context.Context, b *broker, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", b.kafka}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kcat %v: %v: %s", args, err, errs.String())
	}
	return string(out)
}

// kcat stands for librdkafka. Old ones send batches uncompressed, and say nothing, to a
// broker in whose table they miss something; so what is stored is looked at.
func TestKcatReadsWhatItHasSentWithEveryCodec(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skipf("kcat is not installed: %v", err)
	}
	b := start(t)
	ctx := within(t)
	if out := kcat(t, ctx, b, "", "-L"); !strings.Contains(out, "broker 1 at "+b.kafka) {
		t.Errorf("kcat -L: %s", out)
	}
	var lines strings.Builder
	for i := range 500 {
		lines.WriteString("a line that compresses well, well, well " + strconv.Itoa(i) + "\n")
	}
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "kcat-" + codec
		kcat(t, ctx, b, lines.String(), "-P", "-t", topic, "-z", codec)
		if out := kcat(t, ctx, b, "", "-C", "-t", topic, "-e", "-q"); out != lines.String() {
			t.Errorf("%s: %d bytes came back of %d", codec, len(out), lines.Len())
		}
		if out := kcat(t, ctx, b, "", "-Q", "-t", topic+":0:-1"); !strings.Contains(out, "offset 500") {
			t.Errorf("%s: the end is at %s", codec, out)
		}
		// A batch that compression does not make smaller is sent without; the first one may
		// have a single line.
		if all := poll(t, ctx, b.kgo(kgo.ConsumeTopics(topic)), 500); !slices.ContainsFunc(all, func(r *kgo.Record) bool { return int(r.Attrs.CompressionType()) == i }) {
			t.Errorf("%s: no batch is stored so; the first one with codec %d", codec, all[0].Attrs.CompressionType())
		}
	}
	kcat(t, ctx, b, "once\n", "-P", "-t", "kcat-once", "-X", "enable.idempotence=true")
	if out := kcat(t, ctx, b, "", "-C", "-t", "kcat-once", "-e", "-q"); out != "once\n" {
		t.Errorf("an idempotent producer: %q", out)
	}
}

// kcat -G is a member of a group by librdkafka, which needs the lowest versions of
// everything about groups to be advertised.
func TestKcatIsAMemberOfAGroup(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skipf("kcat is not installed: %v", err)
	}
	b := start(t)
	ctx := within(t)
	b.mqd("shift", 2)
	read := func(n int) []string {
		out := kcat(t, ctx, b, "", "-G", "night", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-q", "-c", strconv.Itoa(n), "shift")
		return strings.Fields(out)
	}
	kcat(t, ctx, b, "a\nb\nc\n", "-P", "-t", "shift", "-p", "0")
	if got := read(3); strings.Join(got, " ") != "a b c" {
		t.Errorf("a member has read %q", got)
	}
	b.kill()
	b.launch()
	if got := committed(t, ctx, b.kgo(), "night", "shift"); got[0] != 3 {
		t.Errorf("committed are %v, expected 3 of partition 0", got)
	}
	kcat(t, ctx, b, "d\n", "-P", "-t", "shift", "-p", "0")
	if got := read(1); strings.Join(got, " ") != "d" {
		t.Errorf("the next member has read %q", got)
	}
}
