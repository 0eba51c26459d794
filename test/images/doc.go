// Package images enumerates what a crash can leave. A scripted workload runs on a whole
// node in a simulated machine, and before every step that may change its disk the
// machine stands still: every image that a power cut, or the death of the process,
// could leave at that moment is made, or as many as a bound allows, recovered, read,
// and held against all that had been acknowledged when the moment came. Some of the
// recoveries run as whole nodes and are crashed in the same way at each of their own
// steps, and so are some of those that follow.
//
// What survives is chosen in sectors of 512 bytes, of what no flush has covered and of
// what is in flight, and in changes of names and of sizes.
//
//	make images
package images
