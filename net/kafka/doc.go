// Package kafka is the front door for Kafka clients: it speaks Kafka's protocol on
// the connections of net/conn and asks the broker, whose log is made of Kafka's
// record batches, so that nothing is converted on the way in or out.
//
// One [Server] stands on every shard. What it serves is the table [APIs]; each of
// those is a file that its key begins the name of. Produce and Fetch are decoded and
// encoded by hand, without allocation, and their batches are appended from where they
// were received and sent from where the engine keeps them. Everything else goes
// through kmsg.
//
// # Order
//
// Kafka's clients expect answers in the order of their requests. Produces of a
// connection are in the works together, also at several shards, and their answers
// wait for each other in a queue. Anything else is taken only when nothing else is in
// the works on its connection, and until it is answered the connection is not read:
// a long poll holds up what comes behind it, as it does in Kafka. Clients have a
// connection of its own for that.
//
// # Bounds
//
// Lengths are checked before anything is sized by them. What decodes to nothing that
// can be answered ends the connection, and [Options].Refused hears why. A frame of
// another API than Produce is limited to 512 KiB, because what kmsg makes of one may
// be some hundred times as large.
package kafka
