package engine

import "github.com/mqd-broker/mqd/engine/layout"

// The names of package layout that callers of the engine need.
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

// ParseClass is layout.ParseClass.
func ParseClass(s string) (Class, error) { return layout.ParseClass(s) }

// SlotOf is layout.SlotOf.
func SlotOf(k Key, slots int) uint16 { return layout.SlotOf(k, slots) }

// Assignment is layout.Assignment.
func Assignment(slots, shards int) []uint16 { return layout.Assignment(slots, shards) }
