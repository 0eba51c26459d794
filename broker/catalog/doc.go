// Package catalog is the state machine of what stands beside the log: the topics,
// their ids and their settings.
//
// Commands are records of internal partition 0, encoded by [Command.Append] and
// applied in order of offset by [State.Apply]; docs/format/catalog.md has the
// bytes. The state is written to a snapshot now and then, so that recovery applies
// only what came after. Readers use an immutable [Image], which every command
// replaces by a changed copy.
//
// The package performs no I/O and knows no clock: ids and times are given by the
// caller.
package catalog
