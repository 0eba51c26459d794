//go:build invariants

package invariant

// Enabled turns on the checks that walk data. This build has the tag
// "invariants".
const Enabled = true
