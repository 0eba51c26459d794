// Package agent has other machines do parts of a measurement: agents that produce, and
// agents that consume. One process, the coordinator, makes the topic, hands each agent
// its plan, and puts together what they have found: histograms by bucket, and of every
// lane what was sent against what was read.
//
// The protocol is one connection to each agent with frames of JSON. Both ends prove that
// they know a token, which does not travel; nothing is encrypted. It is for a network
// that is trusted otherwise, and an agent listens on the loopback interface unless it is
// told where.
//
// Clocks of two machines have nothing in common. The coordinator asks each agent for its
// time, many times, and takes the exchange that took the shortest: the agent's clock
// then is ahead by what it said less the middle of the exchange, and this is wrong by at
// most half of the exchange. Acknowledgements need no common clock: who sends a message
// also gets its answer. What goes from end to end does, and has the error of two
// agents' clocks, and whatever they have drifted meanwhile.
package agent
