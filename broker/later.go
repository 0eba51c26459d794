package broker

import (
	"time"

	"github.com/mqd-broker/mqd/engine/shard"
)

// A fetch that waits takes a reading of the shard that owns its partition, and there are
// not so many of those as a shard may be asked at a time. One for which there is no room
// waits at the shard that asks, in its own memory, and is asked again from time to time,
// until it finds something, finds room, or its wait is over. The first in the list comes
// first; the rate bounds what all of them cost, and with their number grows how late they
// find what has come: 64 thousand are looked at once a second.
const (
	lookPause  = int64(time.Millisecond)
	lookAtOnce = 64
)

// looks is a shard as the owner of the timer by which fetches are asked again.
type looks Shard

// fetchEnd is a fetch as the owner of the timer that ends its wait.
type fetchEnd Fetch

// askLater has a fetch wait here that has found nothing, and no room.
func (b *Shard) askLater(r *Fetch) {
	now := b.loop.Now()
	if r.canceled || now >= r.until {
		b.deliver(r)
		return
	}
	b.stats.CrowdWaits++
	r.stage, r.asks = fetchLater, b
	r.wait.msg.body = r
	b.crowd.push(&r.wait)
	r.end.Owner = (*fetchEnd)(r)
	b.loop.Arm(&r.end, r.until)
	b.armLooks(now)
}

func (b *Shard) armLooks(now int64) {
	if !b.looks.Armed() && !b.crowd.empty() {
		b.loop.Arm(&b.looks, now+lookPause)
	}
}

// leaveCrowd ends that.
func (b *Shard) leaveCrowd(r *Fetch) {
	r.wait.leave()
	b.loop.Disarm(&r.end)
}

// Fire asks again for those who wait longest.
func (o *looks) Fire(_ *shard.Timer, now int64) {
	b := (*Shard)(o)
	for n := min(lookAtOnce, b.crowd.n); n > 0 && !b.crowd.empty(); n-- {
		r := b.crowd.first.msg.body.(*Fetch)
		b.leaveCrowd(r)
		b.askHome(r)
	}
	b.armLooks(now)
}

// Fire asks for the last time: it is answered with what there is.
func (o *fetchEnd) Fire(*shard.Timer, int64) {
	r := (*Fetch)(o)
	r.asks.leaveCrowd(r)
	r.asks.askHome(r)
}
