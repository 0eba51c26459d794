package engine

import (
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/options"
	"github.com/mqd-broker/mqd/engine/tally"
)

// The names of packages layout, options and tally that callers of the engine need.
type (
	// TopicID names a topic for life.
	TopicID = layout.TopicID
	// Key names a partition.
	Key = layout.Key
	// Class is a durability class.
	Class = layout.Class
	// PartitionConfig is what a topic's configuration says about each partition.
	PartitionConfig = layout.PartitionConfig
	// CorruptError says where stored data does not check.
	CorruptError = layout.CorruptError
	// StoreStats are a store's counters.
	StoreStats = tally.Stats
	// Usage is what a store holds at the moment.
	Usage = tally.Usage
	// StoreOptions size a store.
	StoreOptions = options.Store
	// Events tells what an operator should hear of.
	Events = options.Events
)

// The durability classes.
const (
	ClassNone    = layout.ClassNone
	ClassMemory  = layout.ClassMemory
	ClassWritten = layout.ClassWritten
	ClassFlushed = layout.ClassFlushed
)

// CatalogName is the name of the catalog's topic, CatalogSlot its slot.
const (
	CatalogName = layout.CatalogName
	CatalogSlot = layout.CatalogSlot
)

// CatalogTopic is the id of the catalog's topic.
var CatalogTopic = layout.CatalogTopic

// ReadBufferBytes is the size of a buffer for reads from segment files.
const ReadBufferBytes = options.ReadBufferBytes

// SlotOf is layout.SlotOf.
func SlotOf(k Key, slots int) uint16 { return layout.SlotOf(k, slots) }
