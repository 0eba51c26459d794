// Package shard is the loop that everything of one shard runs on: its
// partitions, its connections, its journal and its timers.
//
// A [Loop] owns one [aio.Driver] and runs one [Worker]. A turn is
//
//	take tasks -> Worker.Drain -> completions -> timers -> Worker.Finish -> idle
//
// with bounded work in each step. Nothing else touches what the worker owns, so
// nothing on the path locks, and the order of events within a shard is the
// order of the loop.
//
// Idle. A loop that has nothing to do first polls, yielding its CPU after every
// empty turn: a durable write completes in a kernel worker bound to a CPU, and a
// thread that spins there without yielding delays it to the scheduler's tick
// (4 ms instead of 0.1). After the spin time it announces that it sleeps and
// blocks in the driver; whoever sends it something then wakes it. While a
// durable round is in flight the worker asks for a longer spin (see
// [Worker.SpinHint]).
package shard
