// Package process runs mqd as a user would: as a child process that can be
// waited for, told to stop, and killed.
package process
