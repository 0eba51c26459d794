// Package settings brings the settings of a topic into the form of the protocol.
package settings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/mqd-broker/mqd/net/wire"
)

// List turns settings into a list in order of key. The error says what of them the
// protocol cannot carry.
func List(configs map[string]string) ([]wire.Config, error) {
	if len(configs) >= wire.MaxString {
		return nil, fmt.Errorf("%d settings", len(configs))
	}
	list := make([]wire.Config, 0, len(configs)+1)
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		v := configs[k]
		if k == "" || len(k) > wire.MaxString || len(v) > wire.MaxString {
			return nil, fmt.Errorf("setting %.32q: key or value too long, or no key", k)
		}
		list = append(list, wire.Config{Key: k, Value: v})
	}
	return list, nil
}
