// Package machines has what mqd check and mqd tune read of real machines, and holds what
// they make of it to what they are expected to. The README says where the machines are from.
package machines
