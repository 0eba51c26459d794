// Package cli tests the program as people use it: it builds the real binary,
// starts brokers on directories of their own, and works with them through the
// command line alone.
package cli
