// Package hostnet opens and names TCP sockets of the machine for drivers of the I/O
// port: what may block or happens once, and so is no operation of a loop.
package hostnet
