package client

import "testing"

// BenchmarkRecords iterates over the records of a batch of 500.
func BenchmarkRecords(b *testing.B) {
	fake := newFakeBroker(b)
	fake.addTopic("alerts", 1)
	fake.put("alerts", 0, CompressNone, numbered(0, 500)...)
	co := openConsumer(b, dialFake(b, fake), Topics("alerts"))
	bt, err := co.Poll(testContext(b))
	if err != nil {
		b.Fatal(err)
	}
	defer bt.Release()
	b.ReportAllocs()
	b.ResetTimer()
	var bytes int
	for i := 0; i < b.N; i += bt.Len() {
		for r := range bt.Records() {
			bytes += len(r.Value)
		}
	}
}
