// Package native is the front door for mqd's own batch protocol: it speaks
// net/wire on the connections of net/conn and asks the broker.
//
// One [Server] stands on every shard. A request becomes a pooled struct that the
// broker's own request is embedded in; when the broker is done, the answer is
// written behind whatever else the turn answers on that connection, and carries
// the correlation id by which the client finds it. Nothing waits for anything
// else: a long poll does not delay an acknowledgement.
//
// The batch of a produce request stays where it was received until the broker
// has it; that is why the frame is retained and a connection's requests and bytes
// in flight are bounded. At the bound the connection is not read. The batches of a
// fetch's answer are sent from where the engine keeps them, and are released when
// the kernel has them. A peer that does not read keeps no more than
// [Options].MaxPinned of them: answers above that are given back and asked for
// again when the earlier ones have gone.
package native
