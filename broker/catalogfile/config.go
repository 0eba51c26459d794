package catalogfile

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/layout"
)

// CatalogConfig is the configuration of the catalog's partition.
func CatalogConfig() engine.PartitionConfig {
	var c catalog.Config
	return PartitionConfig(&c, catalog.DefaultMaxMessageBytes)
}

// PartitionConfig is what a topic's settings mean to the engine, on a node with a largest
// batch of maxBatch bytes.
func PartitionConfig(c *catalog.Config, maxBatch int) engine.PartitionConfig {
	return engine.PartitionConfig{
		Class:            engine.Class(c.Durability()),
		SegmentBytes:     c.SegmentBytes(),
		IndexInterval:    c.IndexInterval(),
		MaxBatch:         min(c.MaxMessageBytes(), maxBatch),
		FlushInterval:    c.FlushInterval(),
		FlushBytes:       c.FlushBytes(),
		AppendTimestamps: c.TimestampType() == catalog.LogAppendTime,
		Compaction: layout.Compaction{
			On: c.CleanupPolicy().Compacts(), Dirty: c.DirtyRatio(), MinLag: c.CompactionLag(), Tombstones: c.DeleteRetention(),
		},
	}
}
