package throttle

import "time"

// fullFor is how long a space counts as full after somebody found none, while others
// that have theirs already go on.
const fullFor = 2 * time.Second

// Full remembers when a space was found full. The zero Full has not been.
type Full struct{ at int64 }

// Found notes that there is no space at time now, in nanoseconds. It reports whether
// that is news.
func (f *Full) Found(now int64) bool {
	was := f.at
	f.at = max(1, now)
	return was == 0
}

// Is reports whether the space counts as full at time now.
func (f *Full) Is(now int64) bool { return f.at != 0 && now-f.at <= int64(fullFor) }

// Over forgets what is long ago. It reports whether there was anything to forget.
func (f *Full) Over(now int64) bool {
	over := f.at != 0 && !f.Is(now)
	if over {
		f.at = 0
	}
	return over
}
