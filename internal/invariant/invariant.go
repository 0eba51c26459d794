// Package invariant holds the one way in which mqd reports its own bugs.
//
// A failure of the world (a disk, a peer, a configuration) is an error value
// with a type. A broken invariant is a bug of ours, after which state cannot be
// trusted: it stops the process with a message that names the invariant.
// Checks that cost a comparison stay on in production; those that walk data
// are written behind [Enabled].
package invariant

// Violation is the value that a broken invariant panics with. Code that
// recovers at a boundary (a shard loop that stops with a dump) can tell it from
// other panics by its type.
type Violation struct {
	// Name says which invariant broke: "<package>: <what must hold>".
	Name string
}

// Error makes a Violation readable in a panic's output.
func (v Violation) Error() string { return "BUG: invariant violated: " + v.Name }

// Violated stops the process: the invariant called name does not hold.
// Callers test the condition themselves, so that the good case evaluates no
// arguments and makes no call.
func Violated(name string) {
	panic(Violation{Name: name})
}
