package batch

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// The tables of the format document say where fields are; this holds them to the
// constants.
func TestFormatDocumentHasThePositionsOfTheCode(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "format", "batch.md"))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| ([iu]\d+)? ?\| ([a-z ]+) \|`).FindAllStringSubmatch(string(doc), -1) {
		at[m[3]], _ = strconv.Atoi(m[1])
	}
	for name, want := range map[string]int{
		"base offset": AtBaseOffset, "batch length": AtLength, "leader epoch": AtLeaderEpoch, "magic": AtMagic,
		"crc": AtCRC, "attributes": AtAttributes, "last offset delta": AtLastOffsetDelta,
		"base timestamp": AtBaseTimestamp, "max timestamp": AtMaxTimestamp, "producer id": AtProducerID,
		"producer epoch": AtProducerEpoch, "base sequence": AtBaseSequence, "record count": AtCount, "records": AtRecords,
		"plain total": atPlainTotal, "plain count": atPlainCount, "plain body bytes": atPlainBody, "messages": PlainHeaderSize,
		"message length": atMessageLength, "message crc": atMessageCRC,
		"fetch offset": atFetchOffset, "fetch length": atFetchLength, "fetch crc": atFetchCRC, "body": PlainFetchSize,
	} {
		if got, ok := at[name]; !ok || got != want {
			t.Errorf("%s: byte %d in the document (found: %v), %d in the code", name, got, ok, want)
		}
	}
	if n := len(at); n != 24 {
		t.Errorf("the document has %d fields, the test 24", n)
	}
}
