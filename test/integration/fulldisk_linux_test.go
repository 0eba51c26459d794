package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// smallDisk mounts an ext4 filesystem of 64 MiB until the test is over. It skips the test
// where that cannot be done.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 64<<20); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Skipf("a small filesystem cannot be made and mounted: %s: %v: %s", line[0], err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil { // frees the loop device too
			t.Errorf("unmount %s: %v", at, err)
		}
	})
	return at
}

// produceUntilFull sends batches to a partition until the broker refuses one because its
// disk is full, and returns how many it took.
func (b *broker) produceUntilFull(c *rig.Conn, topic wire.TopicID, batch []byte) (taken int) {
	b.t.Helper()
	for ; ; taken++ {
		r, err := c.Produce(wire.ProduceRequest{Topic: topic, Batch: batch})
		if err == nil && r.Code == wire.CodeNone {
			continue
		}
		said := ""
		if err != nil {
			said = err.Error()
		} else {
			said = r.Code.String() + " " + r.Message
		}
		if !strings.Contains(said, wire.CodeBackpressure.String()) || !strings.Contains(said, "disk is full") {
			b.t.Fatalf("produce on a full disk: %s", said)
		}
		return taken
	}
}

func TestABrokerThatDiesOnAFullDiskStartsAndTopicsCanBeDeleted(t *testing.T) {
	dir := filepath.Join(smallDisk(t), "data")
	b := startIn(t, rig.Binary(t), dir)
	keep, gone := b.topic("keep", 1), b.topic("gone", 1)
	c := b.open()
	if r, err := c.Produce(wire.ProduceRequest{Topic: keep, Batch: batchOf("one", "two")}); err != nil || r.Code != wire.CodeNone {
		t.Fatalf("produce: %v, %+v", err, r)
	}
	large := batchOf(strings.Repeat("x", 100<<10))
	if n := b.produceUntilFull(c, gone, large); n < 100 {
		t.Fatalf("full after %d batches of 100 KiB", n)
	}
	for range 2 {
		if err := b.p.Kill(); err != nil {
			t.Fatal(err)
		}
		b = startIn(t, rig.Binary(t), dir)
		b.mustHold(keep, []string{"one", "two"})
		b.produceUntilFull(b.open(), gone, large)
	}
	c = b.open()
	if _, _, err := c.Call(wire.AppendTopicDeleteRequest(nil, c.Next(), wire.TopicDeleteRequest{Name: "gone"})); err != nil {
		t.Fatalf("delete: %v; the broker said: %s", err, b.p.LogTail())
	}
	b.wait("producing works again", func() bool {
		r, err := c.Produce(wire.ProduceRequest{Topic: keep, Batch: batchOf("three")})
		return err == nil && r.Code == wire.CodeNone
	})
	b.mustHold(keep, []string{"one", "two", "three"})
	b.mustServe(c, keep)
	b.stop()
}
