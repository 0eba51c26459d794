package mqdtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

func TestWhatWasRecordedIsReplayed(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.InMemory())
	b.CreateTopic("orders", 3)
	b.CreateTopic("again", 3)
	at := time.UnixMilli(1_800_000_000_123)
	for _, r := range []client.Record{
		{Key: []byte("k"), Value: []byte("text\n\x00"), Time: at},
		{Key: []byte{0xff}, Value: []byte{0, 0xff}, Time: at.Add(time.Second)},
		{Key: []byte("k"), Value: nil, Time: at, Headers: []client.Header{{Key: "a", Value: []byte{0xfe}}, {Key: "a", Value: []byte{}}}},
		{Key: []byte{}, Value: []byte{}, Time: at},
		{Value: []byte("no key"), Time: at},
	} {
		b.Send("orders", r)
	}
	file := filepath.Join(t.TempDir(), "orders.json")
	b.Record("orders", file)
	b.Replay("again", file)
	orders, again := b.ReadAll("orders"), b.ReadAll("again")
	if len(orders) != 5 || !reflect.DeepEqual(orders, again) {
		t.Errorf("%+v\nbecame\n%+v", orders, again)
	}
	second := file + ".again"
	b.Record("again", second)
	if one, two := read(t, file), read(t, second); one != two || strings.Count(one, "\n") != 5 {
		t.Errorf("%s\nbecame\n%s", one, two)
	}
	b.CreateTopic("empty", 1)
	b.Record("empty", file)
	if text := read(t, file); text != "" {
		t.Errorf("an empty topic is %q", text)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Replay takes what people write by hand, too.
func TestReplayTakesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.InMemory())
	b.CreateTopic("orders", 2)
	file := filepath.Join(t.TempDir(), "orders.json")
	lines := "{\"value\":\"any\"}\n\n{\"partition\":1,\"value\":\"one\",\"headers\":{\"a\":\"b\"}}\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Replay("orders", file)
	one := 0
	for _, m := range b.ReadAll("orders") {
		if string(m.Value) == "one" && m.Partition == 1 && m.Headers[0].Key == "a" {
			one++
		}
	}
	if one != 1 || len(b.ReadAll("orders")) != 2 {
		t.Errorf("%+v", b.ReadAll("orders"))
	}
	for text, why := range map[string]string{
		`{"partition":2}`: "partition 2",
		`nonsense`:        "line 1",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		failed := failure(func(t testing.TB) {
			b := mqdtest.New(t, mqdtest.InMemory())
			b.CreateTopic("orders", 2)
			b.Replay("orders", file)
		})
		if !strings.Contains(failed, why) {
			t.Errorf("%s fails with %q", text, failed)
		}
	}
}

// failure is how a test fails.
func failure(f func(testing.TB)) (text string) {
	t := &exampleT{}
	defer t.end()
	defer func() { text = fmt.Sprint(recover()) }()
	f(t)
	return ""
}
