// Package placement decides how many shards a broker has, where they run and what
// they do when they are idle, by what the machine is and what the operator wants.
package placement
