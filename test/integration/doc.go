// Package integration does to a real broker process what clients should not do,
// over real sockets: frames that are no frames, batches that are no batches,
// questions about what does not exist, readers that do not read, crowds. Each
// test ends with a broker that serves others as before, whose memory is bounded,
// and that ends in order. And it does to the real client what brokers should not
// do: die, stand still and come back, whatever is under way.
package integration
