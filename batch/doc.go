// Package batch reads, writes and checks the unit of everything in mqd: the
// Kafka record batch v2, and the plain batch for producers that cannot build
// varints.
//
// A batch is encoded once by the producer, checked once by the broker, stored
// and sent verbatim, and decoded once by the consumer. So the package has two
// sides that share one format:
//
//   - The header side, for the broker. [Check] decides whether a producer's
//     batch may be appended, [CheckStored] whether bytes found in a log are a
//     batch, and [Stamp] writes the two fields that belong to the broker. None of
//     them allocates, and none looks inside the records.
//   - The record side, for clients and helpers. [Builder] makes a batch out of
//     records, [Decoder] and [Iterator] read them back, [Compress] and
//     [Decompress] are the four codecs, the latter under a hard output limit.
//
// [PlainToBatch] and [AppendPlainFetch] convert between the two encodings.
//
// The package keeps no reference to the memory that it is given beyond what a
// function's comment says, starts no goroutine and reads no clock. All integers
// of both formats are big-endian. docs/format/batch.md has the byte tables; the
// nested module test/compat compares the package with an independent Kafka
// implementation.
package batch
