package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// mustApply applies c at the state's next offset.
func mustApply(t testing.TB, s *State, c Command) {
	t.Helper()
	if err := s.Apply(s.Next(), c.Append(nil)); err != nil {
		t.Fatal(err)
	}
}

func create(n byte, name string) Command {
	return Command{Kind: CreateTopic, ID: id(n), Name: name, Partitions: uint32(n)}
}

func TestATopicIsCreatedAlteredAndDeleted(t *testing.T) {
	s := New()
	mustApply(t, s, create(4, "orders"))
	first := s.Image()
	topic := first.ByName("orders")
	if topic == nil || first.ByID(id(4)) != topic || topic.Partitions != 4 || topic.Version != 1 || first.Version() != 1 || first.Partitions() != 4 {
		t.Fatalf("created: %+v in version %d", topic, first.Version())
	}
	mustApply(t, s, Command{Kind: AlterTopic, ID: id(4), Changes: []Change{{KeyDurability, Set, int64(Memory)}}})
	if now := s.Image().ByID(id(4)); now.Config.Durability() != Memory || now.Version != 2 || now.Name != "orders" {
		t.Errorf("altered: %+v", now)
	}
	mustApply(t, s, Command{Kind: AddPartitions, ID: id(4), Partitions: 7})
	if m := s.Image(); m.ByName("orders").Partitions != 7 || m.Partitions() != 7 || m.ByID(id(4)).Version != 3 || m.ByID(id(4)).Config.Durability() != Memory {
		t.Errorf("grown: %+v", m.ByName("orders"))
	}
	mustApply(t, s, Command{Kind: DeleteTopic, ID: id(4)})
	if m := s.Image(); m.ByName("orders") != nil || m.ByID(id(4)) != nil || len(m.Topics()) != 0 || m.Partitions() != 0 || m.Version() != 4 {
		t.Errorf("deleted, and still there: %+v", m.Topics())
	}
	if dead, ok := s.Deleted(id(4)); !ok || dead.Name != "orders" || dead.Offset != 3 {
		t.Errorf("tombstone: %+v, %v", dead, ok)
	}
	if topic.Config.Durability() != Flushed || first.ByName("orders") != topic {
		t.Error("an image changed after it was taken")
	}
	mustApply(t, s, create(5, "orders"))
	if again := s.Image().ByName("orders"); again == nil || again.ID != id(5) {
		t.Errorf("created again: %+v", again)
	}
}

func TestACommandThatContradictsTheStateChangesNothing(t *testing.T) {
	s := New()
	mustApply(t, s, create(1, "a"))
	mustApply(t, s, create(2, "b"))
	mustApply(t, s, create(3, "three"))
	mustApply(t, s, Command{Kind: DeleteTopic, ID: id(2)})
	mustApply(t, s, Command{Kind: AllocateProducers, First: 0, Count: 10})
	before := s.Image()
	for name, c := range map[string]struct {
		command Command
		want    error
	}{
		"a name that is taken":  {create(4, "a"), ErrTopicExists},
		"an id that is taken":   {create(1, "c"), ErrTopicExists},
		"an id of a dead topic": {create(2, "c"), ErrTopicExists},
		"an id of zeros":        {Command{Kind: CreateTopic, Name: "c", Partitions: 1}, ErrInvalidTopic},
		"alter of nothing":      {Command{Kind: AlterTopic, ID: id(9), Changes: []Change{{KeyDurability, Unset, 0}}}, ErrUnknownTopic},
		"more of nothing":       {Command{Kind: AddPartitions, ID: id(9), Partitions: 2}, ErrUnknownTopic},
		"more of the dead":      {Command{Kind: AddPartitions, ID: id(2), Partitions: 9}, ErrUnknownTopic},
		"no more partitions":    {Command{Kind: AddPartitions, ID: id(3), Partitions: 3}, ErrInvalidPartitions},
		"fewer partitions":      {Command{Kind: AddPartitions, ID: id(3), Partitions: 2}, ErrInvalidPartitions},
		"producers again":       {Command{Kind: AllocateProducers, First: 3, Count: 1}, ErrProducers},
		"delete of nothing":     {Command{Kind: DeleteTopic, ID: id(9)}, ErrUnknownTopic},
		"delete of the dead":    {Command{Kind: DeleteTopic, ID: id(2)}, ErrUnknownTopic},
	} {
		if err := s.Check(&c.command); !errors.Is(err, c.want) {
			t.Errorf("%s: checked as %v, want %v", name, err, c.want)
		}
		if err := s.Apply(s.Next(), c.command.Append(nil)); !errors.Is(err, c.want) {
			t.Errorf("%s: applied as %v, want %v", name, err, c.want)
		}
	}
	for name, c := range map[string]struct {
		command Command
		want    error
	}{
		"a name":          {Command{Kind: CreateTopic, ID: id(4), Name: "a b", Partitions: 1}, ErrInvalidTopic},
		"partitions":      {Command{Kind: CreateTopic, ID: id(4), Name: "c"}, ErrInvalidPartitions},
		"more partitions": {Command{Kind: AddPartitions, ID: id(1), Partitions: MaxPartitions + 1}, ErrInvalidPartitions},
		"empty changes":   {Command{Kind: AlterTopic, ID: id(1)}, ErrInvalidConfig},
	} {
		if err := s.Check(&c.command); !errors.Is(err, c.want) {
			t.Errorf("%s: checked as %v, want %v", name, err, c.want)
		}
	}
	if s.Image() != before || len(s.Tombstones()) != 1 {
		t.Error("a refused command changed the state")
	}
}

func TestRecordsAreAppliedInOrderOfOffset(t *testing.T) {
	s := New()
	c := create(1, "a")
	for _, offset := range []int64{-1, 1, 7} {
		if err := s.Apply(offset, c.Append(nil)); !errors.Is(err, ErrOffset) {
			t.Errorf("offset %d of an empty state: %v", offset, err)
		}
	}
	mustApply(t, s, c)
	if err := s.Apply(0, c.Append(nil)); !errors.Is(err, ErrOffset) {
		t.Errorf("offset 0 again: %v", err)
	}
	if err := s.Apply(1, []byte{9}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "offset 1") {
		t.Errorf("a damaged record: %v", err)
	}
	mustApply(t, s, create(2, "b"))
}

func TestARecordThatMayBeSkippedTakesItsOffset(t *testing.T) {
	s := New()
	if err := s.Apply(0, []byte{99, 1, 0, flagSkip}); err != nil {
		t.Fatal(err)
	}
	mustApply(t, s, create(1, "a"))
	if s.Next() != 2 || s.Image().ByName("a").Version != 2 {
		t.Errorf("next %d, topic %+v", s.Next(), s.Image().ByName("a"))
	}
}

func TestTombstonesStayUntilTheyAreForgotten(t *testing.T) {
	s := New()
	for n := byte(1); n <= 3; n++ {
		mustApply(t, s, create(n, fmt.Sprint("t", n))) // offsets 0, 2, 4
		mustApply(t, s, Command{Kind: DeleteTopic, ID: id(n)})
	}
	if n := s.Forget(1); n != 0 {
		t.Errorf("forgot %d before offset 1", n)
	}
	if n := s.Forget(4); n != 2 {
		t.Errorf("forgot %d before offset 4, want 2", n)
	}
	if _, ok := s.Deleted(id(2)); ok {
		t.Error("a forgotten tombstone is found")
	}
	if _, ok := s.Deleted(id(3)); !ok {
		t.Error("a tombstone is gone too early")
	}
}

// model is the catalog told naively.
type model struct {
	topics map[string]Topic
	dead   map[TopicID]bool
}

func (m *model) byID(id TopicID) (Topic, bool) {
	for _, t := range m.topics {
		if t.ID == id {
			return t, true
		}
	}
	return Topic{}, false
}

func (m *model) apply(c Command, version int64) bool {
	t, known := m.byID(c.ID)
	switch c.Kind {
	case CreateTopic:
		if _, taken := m.topics[c.Name]; taken || known || m.dead[c.ID] {
			return false
		}
		m.topics[c.Name] = Topic{ID: c.ID, Name: c.Name, Partitions: c.Partitions, Created: c.Created, Config: Config{}.with(c.Changes), Version: version}
	case AlterTopic:
		if !known {
			return false
		}
		t.Config, t.Version = t.Config.with(c.Changes), version
		m.topics[t.Name] = t
	case AddPartitions:
		if !known || c.Partitions <= t.Partitions {
			return false
		}
		t.Partitions, t.Version = c.Partitions, version
		m.topics[t.Name] = t
	case DeleteTopic:
		if !known {
			return false
		}
		delete(m.topics, t.Name)
		m.dead[c.ID] = true
	}
	return true
}

func (m *model) compare(t *rapid.T, s *State) {
	image := s.Image()
	var names []string
	partitions := 0
	for name, want := range m.topics {
		names = append(names, name)
		partitions += int(want.Partitions)
		for _, got := range []*Topic{image.ByName(name), image.ByID(want.ID)} {
			if got == nil || *got != want {
				t.Fatalf("topic %q: got %+v, want %+v", name, got, want)
			}
		}
	}
	slices.Sort(names)
	var listed []string
	for _, topic := range image.Topics() {
		listed = append(listed, topic.Name)
	}
	if !slices.Equal(names, listed) || image.Partitions() != partitions {
		t.Fatalf("list %v of %d partitions, want %v of %d", listed, image.Partitions(), names, partitions)
	}
	for dead := range m.dead {
		if _, ok := s.Deleted(dead); !ok || image.ByID(dead) != nil {
			t.Fatalf("topic %x is deleted and not dead", dead)
		}
	}
}

func drawCommand(t *rapid.T) Command {
	c := Command{
		Kind: Kind(rapid.IntRange(int(CreateTopic), int(AddPartitions)).Draw(t, "kind")),
		ID:   id(rapid.ByteRange(1, 12).Draw(t, "id")),
	}
	keys := rapid.SliceOfNDistinct(rapid.Uint16Range(1, uint16(lastKey)), 1, int(lastKey), rapid.ID[uint16]).Draw(t, "keys")
	slices.Sort(keys)
	for _, k := range keys {
		in := Key(k).info()
		c.Changes = append(c.Changes, Change{Key(k), Set, rapid.Int64Range(in.min, in.max).Draw(t, "value")})
	}
	switch c.Kind {
	case CreateTopic:
		c.Name = rapid.StringMatching(`[a-d]{1,2}`).Draw(t, "name")
		c.Partitions = rapid.Uint32Range(1, 9).Draw(t, "partitions")
		c.Created = rapid.Int64().Draw(t, "created")
	case AlterTopic:
		if rapid.Bool().Draw(t, "unset") {
			c.Changes[0].Action, c.Changes[0].Value = Unset, 0
		}
	case AddPartitions:
		c.Changes, c.Partitions = nil, rapid.Uint32Range(2, 12).Draw(t, "partitions")
	case DeleteTopic:
		c.Changes = nil
	}
	return c
}

func TestTheStateIsThatOfANaiveModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		m := &model{topics: map[string]Topic{}, dead: map[TopicID]bool{}}
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			c := drawCommand(t)
			want := m.apply(c, s.Next()+1)
			err := s.Apply(s.Next(), c.Append(nil))
			if (err == nil) != want {
				t.Fatalf("%+v: %v, the model says %v", c, err, want)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				back, _, err := DecodeSnapshot(s.Snapshot().Append(nil, goldenNode))
				if err != nil {
					t.Fatal(err)
				}
				s = back
			}
			m.compare(t, s)
		}
	})
}

func TestProducerIDsAreTakenOnce(t *testing.T) {
	s := New()
	for want := int64(0); want < 3000; want += 1000 {
		if s.NextProducer() != want {
			t.Fatalf("next id %d, want %d", s.NextProducer(), want)
		}
		mustApply(t, s, Command{Kind: AllocateProducers, First: want, Count: 1000})
	}
	again := Command{Kind: AllocateProducers, First: 1000, Count: 1000}
	if err := s.Apply(s.Next(), again.Append(nil)); !errors.Is(err, ErrProducers) {
		t.Fatalf("ids that are taken: %v", err)
	}
	mustApply(t, s, Command{Kind: AllocateProducers, First: 1 << 40, Count: 1000}) // some are left out
	back, _, err := DecodeSnapshot(s.Snapshot().Append(nil, goldenNode))
	if err != nil || back.NextProducer() != 1<<40+1000 {
		t.Fatalf("after a snapshot: next id %d, %v", back.NextProducer(), err)
	}
}
