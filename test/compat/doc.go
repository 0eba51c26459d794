// Package compat proves that package batch and Kafka mean the same bytes. Its
// tests compare batch with franz-go, an independent implementation: kmsg for the
// encoding, kgo for compression, partitioning and what a real client sends and
// reads, kfake as the broker between two of them.
//
// It is a module of its own so that these dependencies stay out of mqd's. Run it
// with go test ./... in this directory.
package compat
