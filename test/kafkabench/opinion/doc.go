// Package opinion sends the same requests of Kafka's protocol to a real mqd and to kfake,
// the broker that franz-go is tested with, and compares what they answer: every code, every
// length, and every value that does not hang on who answers. Where the two differ,
// testdata/differences.txt says why; a difference that is not there fails the test, and so
// does one that is there no more.
package opinion
