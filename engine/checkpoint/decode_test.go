package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/engine/producers"
)

// decodeAny decodes a file by its name among the golden ones.
func decodeAny(name string, data []byte) error {
	if name == "node-1.bin" {
		_, err := DecodeNode(data)
		return err
	}
	_, err := Decode(data)
	return err
}

func known(err error) bool {
	var e *FormatError
	return errors.As(err, &e) && (e.Kind == ErrTruncated || e.Kind == ErrDamaged)
}

func TestTruncatedFilesAreNeverTaken(t *testing.T) {
	for name, data := range goldenFiles() {
		for n := range data {
			if err := decodeAny(name, data[:n]); !known(err) {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, n, len(data), err)
			}
		}
		if err := decodeAny(name, append(bytes.Clone(data), 0)); !known(err) {
			t.Fatalf("%s with a byte more: %v", name, err)
		}
	}
}

func TestEverySingleBitFlipIsDetected(t *testing.T) {
	for name, data := range goldenFiles() {
		for i := range len(data) * 8 {
			data[i/8] ^= 1 << (i % 8)
			err := decodeAny(name, data)
			data[i/8] ^= 1 << (i % 8)
			if !known(err) {
				t.Fatalf("%s: bit %d of byte %d flipped: %v", name, i%8, i/8, err)
			}
		}
	}
}

// resum computes the checksums of a checkpoint again.
func resum(b []byte) {
	if len(b) < headerBytes {
		return
	}
	be := binary.BigEndian
	be.PutUint64(b[hBodyBytes:], uint64(len(b)-headerBytes))
	be.PutUint32(b[hBodyCRC:], crc32.Checksum(b[headerBytes:], castagnoli))
	be.PutUint32(b[hCRC:], crc32.Checksum(b[:hCRC], castagnoli))
}

func resumNode(b []byte) {
	if len(b) >= nodeBytes {
		binary.BigEndian.PutUint32(b[nCRC:], crc32.Checksum(b[:nCRC], castagnoli))
	}
}

func TestRulesHoldWhereChecksumsDo(t *testing.T) {
	const part = headerBytes + 2*slotBytes // the first partition
	const (
		one    = part + partitionBytes // the first producer of that, and the second
		five   = one + producerBytes + producerBatchBytes
		second = five + producerBytes + 5*producerBatchBytes // the second partition
		epochs = second + partitionBytes                     // its own
	)
	be := binary.BigEndian
	for name, change := range map[string]func(b []byte){
		"negative segment base": func(b []byte) { b[part+pSegmentBase] = 0x80 },
		"negative end":          func(b []byte) { b[part+pEnd] = 0x80 },
		"next before base":      func(b []byte) { be.PutUint64(b[part+pNextOffset:], 999) },
		"next before log start": func(b []byte) { be.PutUint64(b[part+pLogStart:], 5001) },
		"negative reservation":  func(b []byte) { b[part+pReserved] = 0x80 },
		"term of 32 bits":       func(b []byte) { b[part+pTerm] = 0x80 },
		"slot term of 32 bits":  func(b []byte) { b[headerBytes+sTerm] = 0x80 },
		"slot's reserved":       func(b []byte) { b[headerBytes+sZero] = 1 },
		"partition's reserved":  func(b []byte) { b[part+pRest+15] = 1 },
		"header's reserved":     func(b []byte) { b[hRest] = 1 },
		"too many partitions":   func(b []byte) { be.PutUint32(b[hPartitions:], 0xffffffff) },
		"one partition more":    func(b []byte) { be.PutUint32(b[hPartitions:], 4) },
		"one partition less":    func(b []byte) { be.PutUint32(b[hPartitions:], 2) },
		"too many slots":        func(b []byte) { be.PutUint32(b[hSlots:], 0xffffffff) },
		"too many epochs":       func(b []byte) { be.PutUint32(b[second+pEpochs:], MaxEpochs+1) },
		"epochs past the end":   func(b []byte) { be.PutUint32(b[second+pEpochs:], MaxEpochs) },
		"epoch back":            func(b []byte) { be.PutUint32(b[epochs+epochBytes+eEpoch:], 3) },
		"negative epoch":        func(b []byte) { b[epochs+eEpoch] = 0x80 },
		"start back":            func(b []byte) { be.PutUint64(b[epochs+2*epochBytes+eStart:], 50) },
		"gap before the last":   func(b []byte) { be.PutUint64(b[epochs+2*epochBytes+eGapFrom:], 100) },
		"gap upside down":       func(b []byte) { be.PutUint64(b[epochs+2*epochBytes+eGapFrom:], 8001) },
		"epoch's reserved":      func(b []byte) { b[epochs+eZero] = 1 },
		"coarse past the first": func(b []byte) { be.PutUint64(b[second+pCoarse:], 1) },
		"coarse without epochs": func(b []byte) { be.PutUint64(b[part+pCoarse:], 1) },
		"partition's zero":      func(b []byte) { b[part+pZero2] = 1 },
		"too many producers":    func(b []byte) { be.PutUint32(b[part+pProducers:], 0xffffffff) },
		"one producer more":     func(b []byte) { b[part+pProducers+3]++ },
		"one producer less":     func(b []byte) { b[part+pProducers+3]-- },
		"negative producer":     func(b []byte) { b[one+rID] = 0x80 },
		"producer twice":        func(b []byte) { be.PutUint64(b[five+rID:], 0x0807060504030201) },
		"negative epoch of one": func(b []byte) { b[one+rEpoch] = 0x80 },
		"flags of a producer":   func(b []byte) { b[one+rFlags] = 2 },
		"no batches":            func(b []byte) { b[one+rCount] = 0 },
		"six batches":           func(b []byte) { b[five+rCount] = 6 },
		"producer's zero":       func(b []byte) { b[five+rZero] = 1 },
		"base back":             func(b []byte) { be.PutUint64(b[five+producerBytes+producerBatchBytes:], 1009) },
		"base past the end":     func(b []byte) { be.PutUint64(b[one+producerBytes:], 5000) },
		"negative sequence":     func(b []byte) { b[one+producerBytes+bSequence] = 0x80 },
		"no records":            func(b []byte) { be.PutUint32(b[one+producerBytes+bCount:], 0) },
		"records past the end":  func(b []byte) { be.PutUint32(b[one+producerBytes+bCount:], 2) },
		"negative coarse":       func(b []byte) { b[second+pCoarse] = 0x80 },
	} {
		data := goldenFiles()["checkpoint-2b.bin"]
		change(data)
		resum(data)
		if _, err := Decode(data); !known(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(b []byte){
		"no slots":      func(b []byte) { clear(b[nSlots : nSlots+2]) },
		"too many":      func(b []byte) { b[nSlots] = 0xff },
		"starts":        func(b []byte) { b[nStarts] = 0x80 },
		"reserved":      func(b []byte) { b[nRest] = 1 },
		"reserved zero": func(b []byte) { b[nZero] = 1 },
	} {
		data := goldenFiles()["node-1.bin"]
		change(data)
		resumNode(data)
		if _, err := DecodeNode(data); !known(err) {
			t.Errorf("node: %s: %v", name, err)
		}
	}
}

func TestNewerVersionsAreRefusedByName(t *testing.T) {
	for field, change := range map[string]func(b []byte){
		"version":           func(b []byte) { b[hVersion+1] = 9 },
		"required features": func(b []byte) { b[hRequired+3] = 2 },
		"flags":             func(b []byte) { b[hFlags] = 1 },
	} {
		for name, data := range goldenFiles() {
			if field == "flags" && name == "node-1.bin" {
				continue
			}
			change(data)
			if name == "node-1.bin" {
				resumNode(data)
			} else {
				resum(data)
			}
			err := decodeAny(name, data)
			var e *FormatError
			if !errors.As(err, &e) || e.Kind != ErrUnsupported || e.Field != field {
				t.Errorf("%s of %s: %v", field, name, err)
			}
		}
	}
	data := goldenFiles()["checkpoint-2b.bin"]
	data[hOptional] = 0xff
	resum(data)
	if _, err := Decode(data); err != nil {
		t.Errorf("an optional feature of a checkpoint: %v", err)
	}
	data = goldenFiles()["node-1.bin"]
	data[nOptional] = 0xff
	resumNode(data)
	if _, err := DecodeNode(data); err != nil {
		t.Errorf("an optional feature of the node file: %v", err)
	}
}

func TestWriterAndDecoderAgree(t *testing.T) {
	var w Writer
	rapid.Check(t, func(t *rapid.T) {
		s := Snapshot{Slots: []Slot{}, Partitions: []Partition{}}
		s.Shard = rapid.Uint16().Draw(t, "shard")
		s.Sequence = rapid.Uint64().Draw(t, "sequence")
		s.LSN = rapid.Uint64().Draw(t, "lsn")
		for range rapid.IntRange(0, 5).Draw(t, "slots") {
			s.Slots = append(s.Slots, Slot{Slot: rapid.Uint16().Draw(t, "slot"), Term: rapid.Uint32Range(0, MaxTerm).Draw(t, "term"), Index: rapid.Uint64().Draw(t, "index")})
		}
		for range rapid.IntRange(0, 8).Draw(t, "partitions") {
			p := Partition{
				Partition: rapid.Uint32().Draw(t, "partition"), Slot: rapid.Uint16().Draw(t, "slot"), Class: rapid.Uint8().Draw(t, "class"),
				SegmentBase: rapid.Int64Range(0, 1000).Draw(t, "base"), NextOffset: rapid.Int64Range(1000, 1<<62).Draw(t, "next"),
				End: rapid.Int64Range(0, 1<<32).Draw(t, "end"), MaxTimestamp: rapid.Int64().Draw(t, "max"),
			}
			for id := range rapid.Int64Range(0, 3).Draw(t, "producers") {
				st := producers.State{ID: id, N: rapid.IntRange(1, producers.Window).Draw(t, "batches"), Jumps: rapid.Bool().Draw(t, "jumps")}
				for i := range st.N {
					st.Batches[i] = producers.Batch{Base: int64(i) * 10, AppendTime: rapid.Int64().Draw(t, "time"), Sequence: rapid.Int32Range(0, 1<<31-1).Draw(t, "sequence"), Count: rapid.Int32Range(1, 10).Draw(t, "records")}
				}
				p.Producers = append(p.Producers, st)
			}
			for e := range rapid.Int32Range(0, 4).Draw(t, "epochs") {
				p.Epochs.Begin(e, int64(e)*10, ReasonStart)
			}
			s.Partitions = append(s.Partitions, p)
		}
		back, err := Decode(encode(&w, &s))
		if err != nil {
			t.Fatal(err)
		}
		if len(back.Partitions) != len(s.Partitions) || len(back.Slots) != len(s.Slots) || back.Header != s.Header {
			t.Fatalf("%+v", back)
		}
		for i := range s.Partitions {
			if !bytes.Equal(encode(new(Writer), &Snapshot{Partitions: s.Partitions[i : i+1]}), encode(new(Writer), &Snapshot{Partitions: back.Partitions[i : i+1]})) {
				t.Fatalf("partition %d: %+v, want %+v", i, back.Partitions[i], s.Partitions[i])
			}
		}
	})
}

func TestTheSecondCheckpointAllocatesNothing(t *testing.T) {
	var w Writer
	s := goldenSnapshot()
	encode(&w, s)
	if n := testing.AllocsPerRun(20, func() { encode(&w, s) }); n != 0 {
		t.Errorf("a checkpoint allocates %v times", n)
	}
	violates(t, "add after finish", func() { w.Add(&s.Partitions[0]) })
	violates(t, "finish twice", func() { w.Finish(&s.Header) })
	violates(t, "term of 32 bits", func() { w.Begin([]Slot{{Term: MaxTerm + 1}}) })
}

func FuzzDecodeCheckpoint(f *testing.F) {
	f.Add(goldenFiles()["checkpoint-2b.bin"])
	for _, name := range []string{"checkpoint-1.bin", "checkpoint-2.bin", "checkpoint-2-salvaged.bin"} {
		old, err := os.ReadFile("testdata/golden/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(old)
	}
	f.Add(encode(new(Writer), &Snapshot{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		for range 2 {
			s, err := Decode(data)
			if err == nil {
				again := encode(new(Writer), s)
				// What an earlier version wrote is written as this one does, features that
				// may be passed over or are not used are not written.
				same := bytes.Equal(again[:hOptional+4], data[:hOptional+4])
				if same && !bytes.Equal(again, withoutUnused(data, s)) {
					t.Fatalf("what decodes does not encode to the same bytes")
				}
				if back, err := Decode(again); err != nil || !bytes.Equal(encode(new(Writer), back), again) {
					t.Fatalf("what decodes is not the same when it is written and read again: %v", err)
				}
			} else if err != nil && !known(err) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			if s != nil {
				for i := range s.Partitions {
					useEpochs(&s.Partitions[i].Epochs)
				}
			}
			resum(data) // once more, past the checksums
		}
	})
}

// withoutUnused returns the file of s with zeros where nobody looks.
func withoutUnused(data []byte, s *Snapshot) []byte {
	data = bytes.Clone(data)
	at := headerBytes + len(s.Slots)*slotBytes
	for i := range s.Partitions {
		p := &s.Partitions[i]
		clear(data[at+pUnused : at+pSegmentBase])
		at += partitionBytes + len(p.Epochs.list)*epochBytes
		for k := range p.Producers {
			at += producerBytes + p.Producers[k].N*producerBatchBytes
		}
	}
	resum(data)
	return data
}

// useEpochs calls everything that reads an epoch table.
func useEpochs(e *EpochTable) {
	for _, o := range []int64{-1, 0, 99, 100, 5000, 1 << 62} {
		e.EpochAt(o)
		e.SkipGap(o)
		e.AllowsGap(o, o+1)
		e.EndOffsetFor(int32(o), o)
	}
	e.Last()
	e.Clone().TrimTo(101)
}

func FuzzDecodeNode(f *testing.F) {
	f.Add(goldenFiles()["node-1.bin"])
	f.Fuzz(func(t *testing.T, data []byte) {
		for range 2 {
			n, err := DecodeNode(data)
			if err == nil && data[nOptional]|data[nOptional+1]|data[nOptional+2]|data[nOptional+3] == 0 {
				if !bytes.Equal(AppendNode(nil, &n), data) {
					t.Fatal("what decodes does not encode to the same bytes")
				}
			} else if err != nil && !known(err) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			resumNode(data)
		}
	})
}
