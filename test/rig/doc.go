// Package rig is what the tests share that run the real binary: it builds it,
// finds a directory that it can work in, speaks the batch protocol byte by byte,
// and reads what the process weighs.
package rig
