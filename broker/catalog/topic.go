package catalog

// TopicID names a topic for life. It is assignable to engine.TopicID.
type TopicID = [16]byte

// Setting is one setting of a topic as people write it.
type Setting struct{ Key, Value string }

// Topic is one topic. It is immutable.
type Topic struct {
	ID         TopicID
	Name       string
	Partitions uint32
	Config     Config
}

// Config are the settings of a topic, its own or the defaults.
type Config struct{}

// Image is the catalog at one moment. It is immutable.
type Image struct{}

// ByName finds a topic by its name, or nil.
func (m *Image) ByName(name string) *Topic { return nil }

// ByID finds a topic by its id, or nil.
func (m *Image) ByID(id TopicID) *Topic { return nil }

// Topics are all topics in order of name. The slice must not be changed.
func (m *Image) Topics() []*Topic { return nil }

// Version counts changes: it is the offset of the newest command applied plus
// one.
func (m *Image) Version() int64 { return 0 }
