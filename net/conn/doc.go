// Package conn carries the connections of a shard: it accepts them, cuts what
// they send into frames and sends what protocols answer. It knows no protocol;
// one is plugged in as a [Protocol] behind a [Door].
//
// # Receiving
//
// Bytes arrive in buffers of the driver's receive pool. A frame that lies whole
// inside one is handed to the protocol where it lies; a frame that does not is
// put together in memory of a bounded pool, in steps that follow the bytes that
// have arrived and not the length that was claimed. Either way the protocol
// gets a [Frame], which it may keep by reference until it is done with the
// bytes; a buffer goes home when nobody refers to it.
//
// # Pressure
//
// Nothing grows. A connection for which there is no memory, which holds more
// than its share of the receive pool, whose peer does not read its answers, or
// whose protocol has enough in the works, is not read: its unread bytes stay
// where they are, its receive is cancelled, and TCP tells the peer. It is read
// again when the cause has gone. Time that a connection spends waiting for us
// is not counted against its peer.
//
// # Sending
//
// Small answers are written straight into registered send memory and leave
// together, one send for each connection and turn. Large ones are pieces of
// memory that somebody else owns and that stay pinned until the send has
// completed. There is one send in flight for each connection; what is answered
// meanwhile forms the next.
//
// # Life
//
// All of a [Server]'s connections belong to one loop. Protocols are called on
// it, and call back on it; whatever ends, moves or flushes a connection happens
// in [Server.Finish], never inside a call of the protocol. A connection may be
// handed to the server of another shard between two frames, see [Conn.Move].
package conn
