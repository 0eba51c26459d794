// Package crash kills a real broker with SIGKILL, again and again, while clients
// write and read, and holds what is there afterwards against what was promised.
//
// One run has producers and consumers that live as long as the run, on topics of
// every durability class, and a broker that does not: each life ends at a random
// moment, in the middle of the load, right after the start, or during the
// recovery from the crash before; some end in order. The next one has another
// number of shards. Every life that lasts long enough is read from end to end,
// while the load goes on, and package history judges what was found.
//
// make crash runs 300 cycles; make test a few. A failure prints the seed, which
// chooses everything but the scheduling:
//
//	go test -run TestCrash ./test/crash -crash.cycles=50 -crash.seed=7
package crash
