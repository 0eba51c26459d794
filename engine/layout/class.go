package layout

import "fmt"

// Class is a durability class: what an acknowledgement of a batch means. The
// values are ordered, a larger one promises more; they stand in formats.
type Class uint8

const (
	// ClassNone is no class: nothing asked for, or nothing reached.
	ClassNone Class = 0
	// ClassMemory: the batch has its offset and its place in the shard's
	// memory. A crash of the process loses up to the flush window.
	ClassMemory Class = 1
	// ClassWritten: the journal write has completed. A crash of the process
	// loses nothing; a power cut loses up to the flush window.
	ClassWritten Class = 2
	// ClassFlushed: the journal round has been written and flushed. Nothing
	// acknowledged is lost by crash or power cut. The default.
	ClassFlushed Class = 3
)

// String is the class's name as people write it.
func (c Class) String() string {
	switch c {
	case ClassMemory:
		return "memory"
	case ClassWritten:
		return "written"
	case ClassFlushed:
		return "flushed"
	case ClassNone:
		return "none"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}
