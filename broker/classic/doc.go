// Package classic is the membership of consumer groups whose members divide the work
// among themselves, as Kafka's clients do it: the broker brings the members together,
// one of them, the leader, assigns, and the broker hands out what it has assigned.
//
// A [State] is a pure state machine: it knows no clock, no log and no network. Whoever
// runs it, the coordinator, gives it a [Call] for each request by [State.Take], and
// takes the calls that have been answered from [State.Answered]; a join or a sync may be
// answered by what happens much later. [State.Tick] lets time act, and [State.Next] says
// when it has to be called.
//
// # A rebalance
//
// Whenever the members are others than before, or one of them says something else of
// itself, everybody has to join again. Who does not within the rebalance timeout, the
// longest that a member has asked for, is no member any more. When all are there the
// generation goes up, and the answers to the joins leave; the leader's has what each
// member says of itself. Then everybody waits by a sync for the leader's, which brings
// what it assigns to each of them.
//
//	empty ── join ──▶ preparing ── all have joined, or time is up ──▶ completing
//	  ▲                 ▲    ▲                                            │
//	  │                 │    └── a member joins, leaves, or is silent ────┤
//	  └─ the last goes ─┘                                                 │
//	                    ▲                                                 ▼
//	                    └──── a member joins, leaves, or is silent ──── stable
//
// # Members
//
// A member has an id that the broker gives it. One with an instance is static: when its
// program starts again, and says the name of the instance, it takes the place of its
// predecessor, whose id is fenced from then on, without a rebalance.
//
// What members say of themselves, and what is assigned to them, are bytes of which only
// the number matters: see [Limits].
//
// # What lasts
//
// The last generation in which everybody was told what to do is kept; [State.Keep] hands
// it out and [State.Restore] takes it back behind a start. Members that still know that
// generation go on as if nothing had happened; whoever knows another one joins again. The
// coordinator gives the answers to joins and syncs when what it was handed is durable. So a
// start knows the newest generation in which anybody was told what to do, and who has the
// place of a static member. It may know less of one that was being prepared: its number is
// given out again, to members who all join again for it.
package classic
