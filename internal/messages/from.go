package messages

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/client"
)

// ParseFrom reads what --from says: start, end, OFFSET or @TIME.
func ParseFrom(text string) (client.Place, error) {
	at, isTime := strings.CutPrefix(text, "@")
	switch {
	case text == "start":
		return client.Start(), nil
	case text == "end":
		return client.End(), nil
	case isTime:
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ms >= 0 {
			return client.Time(time.UnixMilli(ms)), nil
		}
		if t, err := time.Parse(time.RFC3339, at); err == nil {
			return client.Time(t), nil
		}
	default:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
			return client.Offset(n), nil
		}
	}
	return client.Place{}, fmt.Errorf("--from is %q, expected start, end, an offset such as 4711, @1700000000000 (milliseconds) or @2026-01-31T12:00:00Z", text)
}
