package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// foreign are the clients that are not written in Go. Each has a program in testdata with
// two members of a group: it says when they have read 400 and 800 records, waits for a line
// each time, and deletes the group. A client that is not installed is passed over.
var foreign = []struct {
	name  string
	probe []string // succeeds where the client is installed
	run   []string
}{
	{"confluent-kafka", []string{"python3", "-c", "import confluent_kafka"}, []string{"python3", "testdata/confluent.py"}},
	{"kafka-python", []string{"python3", "-c", "import kafka"}, []string{"python3", "testdata/kafkapython.py"}},
	{"kafkajs", []string{"node", "-e", "require('kafkajs')"}, []string{"node", "testdata/kafkajs.js"}},
	// The jars are in the directory that MQD_KAFKA_JARS names.
	{"java", []string{"java", "-version"}, []string{"java", "-cp", filepath.Join(os.Getenv("MQD_KAFKA_JARS"), "*"), "testdata/Members.java"}},
}

func TestGroupsOfOtherClientsGoOnBehindAKill(t *testing.T) {
	for _, c := range foreign {
		t.Run(c.name, func(t *testing.T) {
			if out, err := exec.Command(c.probe[0], c.probe[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%s is not installed: %v: %s", c.name, err, lastLine(out))
			}
			if c.name == "java" && os.Getenv("MQD_KAFKA_JARS") == "" {
				t.Skip("MQD_KAFKA_JARS names no directory with kafka-clients and slf4j-api")
			}
			readTwice(t, c.name, c.run)
		})
	}
}

func lastLine(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// readTwice has a program read, kills the broker, and has it read on.
func readTwice(t *testing.T, name string, run []string) {
	b := start(t)
	ctx := within(t)
	topic := "crew-" + name
	b.mqd(topic, 8)
	send := func(first, end int) { // without compression, because not every client comes with codecs
		c := b.kgo(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
		produce(t, ctx, c, topic, first, end)
	}
	send(0, 400)
	cmd := exec.CommandContext(ctx, run[0], append(run[1:], b.kafka, topic)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("it says %q, expected %q: %s", lines.Text(), want, errs.String())
		}
	}
	line := func() { _, _ = io.WriteString(in, "\n") }
	says("read 400")
	b.kill()
	b.launch()
	send(400, 800)
	p := b.kgo()
	line()
	says("read 800")
	sum := int64(0)
	until(t, ctx, "all is committed", func() bool {
		sum = 0
		for _, offset := range committed(t, ctx, p, topic, topic) {
			sum += offset
		}
		return sum == 800
	})
	line()
	says("deleted")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	if got := committed(t, ctx, p, topic, topic); len(got) != 0 {
		t.Errorf("a group that was deleted has %s", fmt.Sprint(got))
	}
}
