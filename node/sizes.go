package node

import (
	"log/slog"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/wire"
)

// Memory of a shard's driver beside what its users say they need.
const (
	// journalRounds is the number of round buffers.
	journalRounds = 4
	// maxRoundBytes is the largest round, as STORAGE.md has it.
	maxRoundBytes = 1 << 20
	// spareArena is for recovery's buffers, the zeros that a journal is made
	// of, and alignment.
	spareArena = 8 << 20
	// frameOverhead is what a frame has beside its batch.
	frameOverhead = 64 << 10
)

// roundBytes is the size of a full round for a journal of size bytes.
func roundBytes(size int64) int {
	return int(min(maxRoundBytes, size/8)) &^ (aio.BlockSize - 1)
}

// arenaBytes is the I/O memory of a shard.
func (n *Node) arenaBytes() int64 {
	journal := int64(journalRounds)*maxRoundBytes*5/4 + 2*int64(n.cfg.MaxMessageBytes)
	return n.storeOptions(0).ArenaBytes() + n.brokerOptions().ArenaBytes() + n.connOptions().Memory() + journal + spareArena
}

func (n *Node) storeOptions(id int) engine.StoreOptions {
	o := engine.StoreOptions{
		Dir: n.cfg.Dir, Shard: id, Shards: n.cfg.Shards, MaxBatch: n.cfg.MaxMessageBytes,
		ChunkBytes: n.cfg.shardCache(), IndexBytes: n.cfg.IndexBytes, OpenFiles: n.cfg.Files - otherFiles,
		CompactionRate: n.cfg.CompactionRate / int64(n.cfg.Shards), CompactionKeys: n.cfg.CompactionKeys,
		CompactionPause: n.cfg.CompactionPause,
		ProducerMax:     n.cfg.ProducerMax, ProducerExpiry: n.cfg.ProducerExpiry,
		DeviceFailed: &n.device, Ballast: n.ballast, Events: (*events)(n),
	}
	if n.rec != nil {
		o.Term, o.Node, o.Slots, o.Identity = n.rec.Term, n.rec.Node.ID, n.rec.Slots, n.rec.Identity
	}
	return o
}

func (n *Node) brokerOptions() broker.Options {
	o := broker.Options{
		Dir: n.cfg.Dir, MaxBatch: n.cfg.MaxMessageBytes, Partitions: uint32(n.cfg.DefaultPartitions), Events: (*events)(n),
		GroupPartitions: uint32(n.cfg.GroupPartitions), GroupLogBytes: n.cfg.GroupLogBytes, Groups: n.cfg.Groups,
		Classic: n.cfg.Classic, RetentionPause: n.cfg.RetentionPause, DeleteOnFull: n.cfg.DeleteOnFull,
	}
	if n.cfg.AutoCreate {
		o.AutoCreate = broker.AutoCreateOn
	}
	return o
}

// maxPinned is how much memory the answers to one connection may keep: a small part
// of what all may keep on a shard, so that it takes many peers that do not read to
// hold up others until they give way.
func (n *Node) maxPinned() int {
	const most, least, share = 2 << 20, 256 << 10, 16
	return int(min(most, max(least, n.cfg.shardCache()/share)))
}

func (n *Node) connOptions() conn.Options {
	o := conn.Options{MaxFrame: max(n.cfg.MaxMessageBytes+frameOverhead, wire.MaxFrameBeforeHello)}
	if n.cfg.KafkaListen != "" && n.cfg.KafkaRequestBytes > o.MaxFrame {
		o.JumboFrame, o.JumboFrames = n.cfg.KafkaRequestBytes, kafkaRequests
	}
	return o
}

// events logs what an operator should hear of.
type events Node

func (e *events) log() *slog.Logger { return e.cfg.Log }

// StoreFailed implements engine.Events.
func (e *events) StoreFailed(shard int, err error) {
	e.shards[shard].failure.Store(&logFailure{err})
	e.log().Error("log failed: nothing is acknowledged until it is opened again, by mqd admin reopen or the next start", "shard", shard, "error", err)
}

// SealFailed implements engine.Events.
func (e *events) SealFailed(k engine.Key, base int64, err error) {
	e.log().Warn("index not written, it will be rebuilt", "topic", k.Topic, "partition", k.Partition, "base", base, "error", err)
}

// SegmentsLeft implements engine.Events.
func (e *events) SegmentsLeft(dir string, err error) {
	e.log().Warn("segments not removed, it is tried again", "directory", dir, "error", err)
}

// CompactionFailed implements engine.Events.
func (e *events) CompactionFailed(dir string, err error) {
	e.log().Warn("not compacted, it is tried again", "directory", dir, "error", err)
}

// DiskFull implements engine.Events.
func (e *events) DiskFull(shard int, full bool, err error) {
	if full {
		e.log().Error("disk full: nothing is taken when the journal is full too; make room or delete topics", "shard", shard, "error", err)
		return
	}
	e.log().Info("the disk has room again", "shard", shard)
}

// BallastMade implements ballast.Events.
func (e *events) BallastMade(size int64) {
	e.log().Info("ballast made again, producers are served", "bytes", size)
}

// BallastMissing implements ballast.Events.
func (e *events) BallastMissing(size int64, err error) {
	e.log().Error("disk full: the ballast has been given up, nothing is taken before there is room for it again; make room or delete topics",
		"bytes", size, "error", err)
}

// BallastUnable implements ballast.Events.
func (e *events) BallastUnable(err error) {
	e.log().Warn("ballast not made: a start on a full disk may fail", "error", err)
}

// SnapshotFailed implements broker.Events.
func (e *events) SnapshotFailed(err error) {
	e.log().Warn("catalog snapshot not written, its log has everything", "error", err)
}

// GroupsDamaged implements broker.Events.
func (e *events) GroupsDamaged(partition uint32, err error) {
	e.log().Error("a snapshot of consumer groups is damaged and was passed over", "partition", partition, "error", err)
}

// FilesLeft implements broker.Events.
func (e *events) FilesLeft(dir string, err error) {
	e.log().Warn("files of a deleted topic not removed, the next start tries again", "directory", dir, "error", err)
}
