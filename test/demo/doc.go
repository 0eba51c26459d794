// Command demo shows what mqd promises, with the program that users have: it
// starts a broker, sends a file and generated alerts, reads everything back with
// another process and compares every byte and the order, kills the broker with
// SIGKILL in the middle of a second pass, starts it again, and looks for every
// message that was acknowledged.
//
// The verdict is about correctness alone; the figures that it prints stand beside
// the floors of the machine that it ran on. Any miss makes the exit status 1.
// make demo runs it.
package main
