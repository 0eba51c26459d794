// Package admin is the HTTP front of a broker for those who look after it: health,
// metrics, the state as JSON, and the order to open failed logs again.
//
// It runs on Go's scheduler and never on a shard. What belongs to a shard is asked for,
// one question a request, and a shard answers by copying numbers; so a scrape costs a
// shard a turn and nothing else. Requests that ask are bounded in number and in time, and
// a shard that does not answer is left out, not waited for.
package admin
