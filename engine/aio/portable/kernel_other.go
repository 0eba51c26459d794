//go:build !linux

package portable

// newCalls makes the calls: there are only the simple ones.
func newCalls(bool) calls { return &simple{} }

// newPoller makes the poller, of which there is one.
func newPoller(bool) (poller, error) { return newPollSet() }

// onlySimple says that the variant for development is all there is.
const onlySimple = true

// offerHugePages does nothing where the system chooses pages by itself.
func offerHugePages([]byte) {}
