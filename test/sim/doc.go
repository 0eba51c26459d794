// Package sim runs whole nodes in simulated machines: shards, engine, broker and both
// front doors, their disk, network and clock, and the clients that talk to them, all in
// one goroutine. In a third of the runs there are Kafka clients among them, also members of
// consumer groups. Everything that happens follows from a seed, so that a
// run repeats exactly by its number.
//
// A run is a number of lives of one data directory. Each begins with a start, which
// may be cut off at any step and begun again, with another number of shards; then
// everything is read and held against what was acknowledged in all lives before
// (package history); then clients produce, consume, create, alter and delete, their
// connections break, the disk fails, and in the end the process is killed, the power
// is cut, or the node is stopped in order.
//
// What a run came through is counted by the names of states: a table of them is
// printed, and a state that no run has reached is a failure of the test.
package sim
