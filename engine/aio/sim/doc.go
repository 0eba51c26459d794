// Package sim is the I/O port in memory: a disk with a volatile cache, a network
// and a clock that belong to a [World], and drivers that stand on it.
//
// The disk keeps what a device promises and nothing more. A completed write
// lies in the device's cache; a flush makes everything durable that had
// completed before the flush was submitted; a write with FlagDSYNC makes its own
// bytes durable and no others. Names in directories are durable after SyncDir
// only, sizes after a sync of their file. [World.Crash] cuts the power and keeps
// a chosen part of what was not durable, in sectors of 512 bytes; [World.Kill]
// ends the process alone.
//
// In a [Virtual] world nothing runs by itself: time moves only inside Poll, every
// latency and choice comes from the seed, and a helper's work is executed one
// filesystem call at a time, so that a run is repeated exactly by its seed and a
// crash can fall between any two steps. In a [RealTime] world the same disk and
// network serve shard loops in goroutines of their own.
package sim
