// Package disk models the disks of a simulated machine and the filesystem on
// them: what a read sees, and what is left when the power fails.
//
// It is the state alone: no time, no locks, no operations in flight. Package sim
// stands on it.
package disk
