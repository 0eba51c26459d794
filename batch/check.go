package batch

import "hash/crc32"

// Check decides whether b is exactly one batch that a producer may append to a
// log whose batches have at most max bytes. It is everything a broker checks
// without decoding records:
//
//   - the format is record batch v2 ([ErrMagic]);
//   - the length field is within [Size]'s bounds, at most max ([ErrTooLarge]),
//     and equal to len(b) ([ErrTruncated] if b is shorter, [ErrInvalid] if longer);
//   - the CRC-32C matches ([ErrCorrupt]); only then are the fields that it covers
//     judged, so that damage is never reported as a rule that the producer broke;
//   - the codec exists ([ErrCodec]), and no bit is set that belongs to the broker
//     or has no meaning: control, delete horizon, append time;
//   - there is at least one record, and the last offset delta is the count - 1;
//   - the records could fit: an uncompressed one takes 7 bytes;
//   - a producer id comes with an epoch and a sequence, a transaction with a
//     producer id.
//
// What a producer writes as base offset and leader epoch is ignored, because
// [Stamp] overwrites both. Check allocates only on failure.
func Check(b []byte, max int) (Header, error) {
	if err := checkShape(b, max); err != nil {
		return Header{}, err
	}
	h := header(b)
	if err := h.checkFields(); err != nil {
		return Header{}, err
	}
	if err := h.checkProduced(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// CheckStored decides whether b is exactly one batch as a log or a fetch answer
// may hold it. Beyond a produced batch it allows what compaction, transactions
// and the broker make of one: fewer records than offsets, also none at all (an
// empty batch that only keeps a producer's state), control batches, append time
// and a delete horizon. It requires a base offset that is not negative. The
// errors and costs are those of [Check], the limit is [MaxSize].
func CheckStored(b []byte) (Header, error) {
	if err := checkShape(b, MaxSize); err != nil {
		return Header{}, err
	}
	h := header(b)
	if err := h.checkFields(); err != nil {
		return Header{}, err
	}
	if err := h.checkStored(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// checkShape checks everything up to and including the CRC.
func checkShape(b []byte, max int) error {
	n, err := formatSize(b)
	if err != nil {
		return err
	}
	switch {
	case n > max:
		return fail(ErrTooLarge, "batch size", AtLength, int64(max), int64(n))
	case n > len(b):
		return fail(ErrTruncated, "batch size", AtLength, int64(n), int64(len(b)))
	case n < len(b):
		return fail(ErrInvalid, "bytes after the batch", n, int64(n), int64(len(b)))
	}
	b = b[:n]
	stored := uint32(b[AtCRC])<<24 | uint32(b[AtCRC+1])<<16 | uint32(b[AtCRC+2])<<8 | uint32(b[AtCRC+3])
	if sum := crc32.Checksum(b[AtAttributes:], castagnoli); sum != stored {
		return fail(ErrCorrupt, "crc", AtCRC, int64(stored), int64(sum))
	}
	return nil
}

// checkFields checks what holds for every batch.
func (h *Header) checkFields() error {
	if h.Attributes.Codec() > CodecZstd {
		return fail(ErrCodec, "attributes", AtAttributes, int64(CodecZstd), int64(h.Attributes.Codec()))
	}
	if h.Attributes.Unknown() != 0 {
		return fail(ErrInvalid, "attributes", AtAttributes, int64(attrKnown), int64(h.Attributes))
	}
	if h.Count < 0 || h.Count > MaxRecords {
		return fail(ErrInvalid, "record count", AtCount, MaxRecords, int64(h.Count))
	}
	if h.LastOffsetDelta >= MaxRecords {
		return fail(ErrInvalid, "last offset delta", AtLastOffsetDelta, MaxRecords-1, int64(h.LastOffsetDelta))
	}
	if h.Attributes.Codec() == CodecNone && int(h.Count)*MinRecordSize > h.Size()-HeaderSize {
		return fail(ErrInvalid, "record count", AtCount, int64((h.Size()-HeaderSize)/MinRecordSize), int64(h.Count))
	}
	if h.ProducerID < NoProducer {
		return fail(ErrInvalid, "producer id", AtProducerID, NoProducer, h.ProducerID)
	}
	return nil
}

// checkProduced checks what holds for a producer's batch.
func (h *Header) checkProduced() error {
	if broker := h.Attributes & (AttrControl | AttrDeleteHorizon | AttrAppendTime); broker != 0 {
		return fail(ErrInvalid, "attributes", AtAttributes, int64(h.Attributes&^broker), int64(h.Attributes))
	}
	if h.Count < 1 {
		return fail(ErrInvalid, "record count", AtCount, 1, int64(h.Count))
	}
	if h.LastOffsetDelta != h.Count-1 {
		return fail(ErrInvalid, "last offset delta", AtLastOffsetDelta, int64(h.Count-1), int64(h.LastOffsetDelta))
	}
	if h.ProducerID == NoProducer {
		if h.Attributes.Transactional() {
			return fail(ErrInvalid, "producer id", AtProducerID, 0, h.ProducerID)
		}
		return nil
	}
	if h.ProducerEpoch < 0 {
		return fail(ErrInvalid, "producer epoch", AtProducerEpoch, 0, int64(h.ProducerEpoch))
	}
	if h.BaseSequence < 0 {
		return fail(ErrInvalid, "base sequence", AtBaseSequence, 0, int64(h.BaseSequence))
	}
	return nil
}

// checkStored checks what holds for a batch that a broker has appended.
func (h *Header) checkStored() error {
	if h.LastOffsetDelta < 0 {
		return fail(ErrInvalid, "last offset delta", AtLastOffsetDelta, 0, int64(h.LastOffsetDelta))
	}
	if h.Count > h.LastOffsetDelta+1 {
		return fail(ErrInvalid, "record count", AtCount, int64(h.LastOffsetDelta)+1, int64(h.Count))
	}
	if h.Count == 0 && h.Size() != HeaderSize {
		return fail(ErrInvalid, "bytes without records", AtRecords, HeaderSize, int64(h.Size()))
	}
	if h.BaseOffset < 0 || h.BaseOffset > maxOffset-int64(h.LastOffsetDelta) {
		return fail(ErrInvalid, "base offset", AtBaseOffset, 0, h.BaseOffset)
	}
	return nil
}

// maxOffset is the largest offset a record can have: the one after it must be
// an offset too.
const maxOffset = 1<<63 - 2
