package catalog

import (
	"fmt"
	"slices"
)

// Tombstone remembers a deleted topic, so that recovery knows entries of it in a
// journal from those of a topic that was never there.
type Tombstone struct {
	ID     TopicID
	Name   string
	Offset int64 // of the command that deleted it
}

// State is the catalog: an image and the tombstones. Commands are applied to it one
// by one, in order of their offsets in internal partition 0, and the same commands
// always make the same state. It belongs to one goroutine; its image is for all.
type State struct {
	image *Image
	// tombstones are in order of offset. The slice is only appended to or
	// replaced, because snapshots share it.
	tombstones []Tombstone
	producers  int64 // the next producer id that nobody has
}

// New returns an empty state: the next command has offset 0.
func New() *State { return &State{image: &Image{}} }

// Next is the offset of the next command.
func (s *State) Next() int64 { return s.image.version }

// Image is the state's image now.
func (s *State) Image() *Image { return s.image }

// Tombstones are those that have not been forgotten, in order of offset. The slice
// must not be changed.
func (s *State) Tombstones() []Tombstone { return s.tombstones }

// NextProducer is the first producer id that has not been taken.
func (s *State) NextProducer() int64 { return s.producers }

// Deleted finds the tombstone of a topic.
func (s *State) Deleted(id TopicID) (Tombstone, bool) {
	for i := range s.tombstones {
		if s.tombstones[i].ID == id {
			return s.tombstones[i], true
		}
	}
	return Tombstone{}, false
}

// Forget drops the tombstones of commands with offsets below before: no journal
// holds entries of their topics any more. It returns how many went.
func (s *State) Forget(before int64) int {
	n := 0
	for n < len(s.tombstones) && s.tombstones[n].Offset < before {
		n++
	}
	if n > 0 {
		s.tombstones = slices.Clone(s.tombstones[n:])
	}
	return n
}

// Apply applies the record at offset, which must be [State.Next]. On failure
// nothing has changed. The errors are [ErrOffset], [FormatError], and those of
// [State.Check].
func (s *State) Apply(offset int64, record []byte) error {
	if offset != s.Next() {
		return fmt.Errorf("%w: expected offset %d, found %d", ErrOffset, s.Next(), offset)
	}
	c, err := Decode(record)
	if err == nil && c.Kind != 0 {
		err = s.Check(&c)
	}
	if err != nil {
		return fmt.Errorf("catalog record at offset %d: %w", offset, err)
	}
	s.change(&c, offset)
	return nil
}

// Check reports whether c can be applied now. The errors are [ErrInvalidTopic],
// [ErrInvalidPartitions], [ErrInvalidConfig], [ErrTopicExists], [ErrUnknownTopic],
// [ErrProducers].
func (s *State) Check(c *Command) error {
	switch c.Kind {
	case CreateTopic:
		return s.checkCreate(c)
	case AddPartitions:
		return s.checkMore(c)
	case AlterTopic, DeleteTopic:
		if s.image.ByID(c.ID) == nil {
			return fmt.Errorf("%w: %s of id %x", ErrUnknownTopic, c.Kind, c.ID)
		}
		if c.Kind == AlterTopic && len(c.Changes) == 0 {
			return fmt.Errorf("%w: nothing to change", ErrInvalidConfig)
		}
	case AllocateProducers:
		if c.First < s.producers {
			return fmt.Errorf("%w: from %d on, expected from %d or a later one on", ErrProducers, c.First, s.producers)
		}
	}
	return nil
}

func (s *State) checkMore(c *Command) error {
	t := s.image.ByID(c.ID)
	if t == nil {
		return fmt.Errorf("%w: %s of id %x", ErrUnknownTopic, c.Kind, c.ID)
	}
	if err := CheckPartitions(c.Partitions, MaxPartitions); err != nil {
		return err
	}
	if c.Partitions <= t.Partitions {
		return fmt.Errorf("%w: %d, and topic %q has %d: there can only be more", ErrInvalidPartitions, c.Partitions, t.Name, t.Partitions)
	}
	return nil
}

func (s *State) checkCreate(c *Command) error {
	if err := CheckName(c.Name); err != nil {
		return err
	}
	if err := CheckPartitions(c.Partitions, MaxPartitions); err != nil {
		return err
	}
	if c.ID == (TopicID{}) {
		return fmt.Errorf("%w: an id of zeros", ErrInvalidTopic)
	}
	if t := s.image.ByName(c.Name); t != nil {
		return fmt.Errorf("%w: %q", ErrTopicExists, c.Name)
	}
	if t := s.image.ByID(c.ID); t != nil {
		return fmt.Errorf("%w: id %x is that of %q", ErrTopicExists, c.ID, t.Name)
	}
	if t, ok := s.Deleted(c.ID); ok {
		return fmt.Errorf("%w: id %x was that of %q, which is deleted", ErrTopicExists, c.ID, t.Name)
	}
	return nil
}

// change carries out a command that has been checked. Kind 0 changes nothing but
// the version.
func (s *State) change(c *Command, offset int64) {
	var gone, come *Topic
	switch c.Kind {
	case CreateTopic:
		come = &Topic{
			ID: c.ID, Name: c.Name, Partitions: c.Partitions, Created: c.Created,
			Config: Config{}.with(c.Changes), Version: offset + 1,
		}
	case AlterTopic:
		gone = s.image.ByID(c.ID)
		altered := *gone
		altered.Config, altered.Version = gone.Config.with(c.Changes), offset+1
		come = &altered
	case AddPartitions:
		gone = s.image.ByID(c.ID)
		grown := *gone
		grown.Partitions, grown.Version = c.Partitions, offset+1
		come = &grown
	case DeleteTopic:
		gone = s.image.ByID(c.ID)
		s.tombstones = append(s.tombstones, Tombstone{ID: c.ID, Name: gone.Name, Offset: offset})
	case AllocateProducers:
		s.producers = c.First + int64(c.Count)
	}
	s.image = s.image.with(offset+1, gone, come)
}
