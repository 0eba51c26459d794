//go:build !invariants

package invariant

// Enabled turns on the checks that walk data. Build with the tag
// "invariants" to have them.
const Enabled = false
