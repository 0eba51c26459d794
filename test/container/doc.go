// Package container runs the broker under the system calls that its seccomp profile
// allows, as a container does.
package container
