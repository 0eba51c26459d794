package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Topic is one topic. It is immutable.
type Topic struct {
	ID         TopicID
	Name       string
	Partitions uint32
	Config     Config
	// Created is when it was made, in Unix nanoseconds.
	Created int64
	// Version is the image version since which the topic is as it is.
	Version int64
}

// Internal reports whether the topic is the broker's own: its name begins with
// [InternalPrefix].
func (t *Topic) Internal() bool { return strings.HasPrefix(t.Name, InternalPrefix) }

// buckets is the number of parts in which an image keeps each of its maps. A
// change copies one part of each.
const buckets = 256

// Image is the catalog at one moment. It is immutable: a change makes a new one,
// which shares with the old what has not changed.
type Image struct {
	version    int64
	partitions int
	topics     []*Topic // in order of name
	byID       [buckets]map[TopicID]*Topic
	byName     [buckets]map[string]*Topic
}

// ByName finds a topic by its name, or nil.
func (m *Image) ByName(name string) *Topic { return m.byName[nameBucket(name)][name] }

// ByNameBytes is ByName for a name that is not a string yet. It allocates nothing.
func (m *Image) ByNameBytes(name []byte) *Topic { return m.byName[nameBucket(name)][string(name)] }

// ByID finds a topic by its id, or nil.
func (m *Image) ByID(id TopicID) *Topic { return m.byID[idBucket(id)][id] }

// Topics are all topics in order of name. The slice must not be changed.
func (m *Image) Topics() []*Topic { return m.topics }

// Partitions is the number of partitions of all topics.
func (m *Image) Partitions() int { return m.partitions }

// Version counts changes: the offset of the newest command applied plus one; 0 for
// an empty catalog.
func (m *Image) Version() int64 { return m.version }

// idBucket needs no hash, because ids are random.
func idBucket(id TopicID) int { return int(id[0] ^ id[15]) }

// nameBucket is FNV-1a of the name, folded to eight bits.
func nameBucket[T string | []byte](name T) int {
	h := uint32(2166136261)
	for i := range len(name) {
		h = (h ^ uint32(name[i])) * 16777619
	}
	h ^= h >> 16
	return int((h ^ h>>8) & (buckets - 1))
}

// with is m at another version, without the topic gone and with the topic come;
// either may be nil. A topic that changes is both.
func (m *Image) with(version int64, gone, come *Topic) *Image {
	next := *m
	next.version = version
	if gone != nil {
		next.remove(gone)
	}
	if come != nil {
		next.add(come)
	}
	return &next
}

func (m *Image) remove(t *Topic) {
	i, _ := m.find(t.Name)
	m.topics = slices.Concat(m.topics[:i], m.topics[i+1:])
	m.partitions -= int(t.Partitions)

	ids, names := &m.byID[idBucket(t.ID)], &m.byName[nameBucket(t.Name)]
	*ids, *names = without(*ids, t.ID), without(*names, t.Name)
}

func (m *Image) add(t *Topic) {
	i, _ := m.find(t.Name)
	m.topics = slices.Concat(m.topics[:i], []*Topic{t}, m.topics[i:])
	m.partitions += int(t.Partitions)

	ids, names := &m.byID[idBucket(t.ID)], &m.byName[nameBucket(t.Name)]
	*ids, *names = with(*ids, t.ID, t), with(*names, t.Name, t)
}

// without is a copy of a bucket without key k; nil when nothing is left.
func without[K comparable](bucket map[K]*Topic, k K) map[K]*Topic {
	if len(bucket) == 1 {
		return nil
	}
	bucket = maps.Clone(bucket)
	delete(bucket, k)
	return bucket
}

// with is a copy of a bucket with t as k.
func with[K comparable](bucket map[K]*Topic, k K, t *Topic) map[K]*Topic {
	bucket = maps.Clone(bucket)
	if bucket == nil {
		bucket = map[K]*Topic{}
	}
	bucket[k] = t
	return bucket
}

// find is the place of a name in the sorted list.
func (m *Image) find(name string) (int, bool) {
	return slices.BinarySearchFunc(m.topics, name, func(t *Topic, name string) int {
		return strings.Compare(t.Name, name)
	})
}

// newImage is an image of topics that are in order of name.
func newImage(version int64, topics []*Topic) *Image {
	m := &Image{version: version, topics: topics}
	for _, t := range topics {
		m.partitions += int(t.Partitions)
		if b := idBucket(t.ID); m.byID[b] == nil {
			m.byID[b] = map[TopicID]*Topic{}
		}
		if b := nameBucket(t.Name); m.byName[b] == nil {
			m.byName[b] = map[string]*Topic{}
		}
		m.byID[idBucket(t.ID)][t.ID] = t
		m.byName[nameBucket(t.Name)][t.Name] = t
	}
	return m
}
