package batch

import "testing"

// The hashes are those of Kafka's own unit test, as signed 32-bit numbers.
func TestMurmur2MatchesKafka(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestPartitionClearsTheSignAndCoversEveryPartition(t *testing.T) {
	// -973932308 without its sign bit, modulo 7.
	if got := Partition([]byte("21"), 7); got != int32((-973932308&0x7fffffff)%7) {
		t.Errorf("partition %d", got)
	}
	var seen [16]int
	for i := range 4096 {
		p := Partition([]byte{byte(i), byte(i >> 8)}, int32(len(seen)))
		if p < 0 || int(p) >= len(seen) {
			t.Fatalf("key %d: partition %d", i, p)
		}
		seen[p]++
	}
	for p, n := range seen {
		if n < 128 || n > 512 {
			t.Errorf("partition %d has %d of 4096 keys", p, n)
		}
	}
}
