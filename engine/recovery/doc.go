// Package recovery makes a data directory whole before anything is served:
// it reads the checkpoints and journals of every shard there has been, brings to
// the segments what only the journals have, makes it durable, and says what each
// shard begins with.
package recovery
