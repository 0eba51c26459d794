//go:build !linux

package ethtool

import "errors"

// Ask has nobody to ask here.
func Ask(string) (Coalescing, error) { return Coalescing{}, errors.ErrUnsupported }
