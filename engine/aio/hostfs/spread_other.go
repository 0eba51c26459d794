//go:build !linux

package hostfs

// Spread does nothing: no filesystem is known to take the advice.
func (FS) Spread(string) {}
