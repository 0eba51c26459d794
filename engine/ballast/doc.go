// Package ballast keeps a file that is there to be removed: room for what has to be
// written on a full disk, a start and the removal of topics above all.
package ballast
