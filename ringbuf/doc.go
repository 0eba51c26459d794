// Package ringbuf carries fixed-size messages between shard threads without a
// lock, a channel, an allocation or a wait.
//
//   - [SPSC] is one bounded ring between exactly two threads.
//   - [Mesh] is a ring of requests and a ring of replies for every ordered pair
//     of shards, with credits that make replies impossible to refuse. A shard
//     uses it through its [Port] and touches nothing of any other shard.
//   - [Sleep] is the handshake by which a shard that found nothing to do goes to
//     sleep in the kernel without missing a message, and by which a sender learns
//     that it owes exactly one wake-up.
//   - [Inbox] is the door for everybody who is not a shard: admin requests, file
//     helpers, handshakes.
//
// # A turn of the loop
//
// A loop takes what came in, up to a budget that it counts itself, acts, and
// makes everything it sent visible once, at the end of the turn:
//
//	for n := 0; n < budget; n++ {
//		from, reply, ok := port.NextReply() // gives a credit back
//		...
//	}
//	for n := 0; n < budget; n++ {
//		from, request, ok := port.NextRequest()
//		... port.Reply(from, answer) // now or in a later turn; cannot fail
//	}
//	if !port.Send(to, request) { ... keep it, pause its connection ... }
//	port.Publish()
//	for s := port.TakeSleepers(); !s.Empty(); {
//		peer, s = s.Next()
//		... wake peer ...
//	}
//	if idle && port.AnnounceSleep() {
//		... block in the kernel ...
//		port.Awake()
//	}
//
// # Lent memory
//
// A message is a descriptor; payload stays where it is and is lent. The lender
// is always the one who sends the request, the return is always the reply, so a
// return can never be refused. A shard that wants to answer a request with
// memory of its own (pinned chunks for a fetch) therefore lends it by a request
// of its own, which costs it a credit, and copies when it has none.
//
// # Limits
//
// Ring capacities and credits are powers of two from [MinCapacity] to
// [MaxCapacity], a mesh has at most [MaxShards] shards, and nothing grows after
// construction. A mesh of N shards with K credits occupies about
// 2 × N × (N−1) × (K × size of a message + 768) bytes. Message order is kept per
// ordered pair and kind (requests, replies); nothing is promised across pairs or
// between a request and a reply.
//
// # Assumptions
//
// Each end of a ring and each port belongs to one goroutine at a time; handing
// it to another needs a happens-before edge, as any plain variable does.
// Correctness rests on sync/atomic being sequentially consistent, which the Go
// memory model promises; the argument is written on [Sleep].
package ringbuf
