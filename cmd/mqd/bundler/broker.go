package bundler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/adminclient"
)

// question is a path of the admin HTTP whose answer is in a bundle.
type question struct {
	name, what, path string
	kind             kind
	extra            time.Duration // that its answer takes by itself
	flag             string        // that asks for it
}

// probes are answered at once, also by a broker whose shards do not turn.
var probes = []question{
	{name: "live.txt", what: "whether the loops turn", path: admin.PathLive, flag: "admin"},
	{name: "ready.txt", what: "whether messages are taken and served", path: admin.PathReady},
	{name: "startup.txt", what: "whether the start is over", path: admin.PathStartup},
}

// figures are asked for twice, so that rates can be told.
var figures = append(probes,
	question{name: "status.json", what: "state at a glance", path: admin.PathStatus},
	question{name: "shards.json", what: "what each shard tells", path: admin.PathShards, kind: source},
	question{name: "stages.json", what: "how long batches and fetches take in each stage", path: admin.PathStages, kind: source},
	question{name: "metrics.txt", what: "all metrics, in Prometheus' form", path: admin.PathMetrics, kind: source},
)

// others are asked for once; seconds are those of a profile of the CPU, 0 for none.
func others(seconds int) []question {
	all := []question{
		{name: "settings.yaml", what: "settings that are in force", path: admin.PathSettings},
		{name: "topics.json", what: "topics and partitions, without messages", path: admin.PathTopics, kind: source},
		{name: "groups.json", what: "consumer groups", path: admin.PathGroups, kind: source},
		{name: "connections.json", what: "connections of clients", path: admin.PathConnections, kind: source},
		{name: "goroutines.txt", what: "what every goroutine does", path: admin.PathProfiles + "goroutine?debug=2", kind: source},
		{name: "heap.pb.gz", what: "profile of the heap", path: admin.PathProfiles + "heap", kind: binary},
	}
	all = append(all, question{name: "go.trace", what: "the newest seconds of Go's scheduler, for go tool trace", path: admin.PathTrace, kind: binary})
	if seconds > 0 {
		all = append(all, question{name: "cpu.pb.gz", what: fmt.Sprintf("profile of the CPU over %d s", seconds),
			path: fmt.Sprintf("%sprofile?seconds=%d", admin.PathProfiles, seconds), kind: binary, extra: time.Duration(seconds) * time.Second, flag: "cpu"})
	}
	return all
}

// informant is a broker that is asked until it does not answer at all.
type informant struct {
	*adminclient.Broker
	silent error
}

// ask adds the answers to questions to a bundle.
func (i *informant) ask(ctx context.Context, b *bundle, dir string, all []question) {
	for _, q := range all {
		content, err := i.answer(ctx, q)
		b.add(dir+q.name, q.what, q.kind, content, err).flag = q.flag
	}
}

// answer is the answer to a question.
func (i *informant) answer(ctx context.Context, q question) ([]byte, error) {
	if i.silent != nil {
		return nil, i.silent
	}
	status, answer, err := i.Ask(ctx, q.path, q.extra, mostFile+1)
	switch {
	case err != nil && q.path == admin.PathLive: // nothing answers faster
		i.silent = err
		return nil, err
	case err != nil:
		return nil, err
	case status == http.StatusNotFound && strings.HasPrefix(q.path, admin.PathProfiles):
		return nil, errors.New("the broker serves no profiles: its setting admin.pprof (--admin-pprof) is false")
	case status == http.StatusServiceUnavailable && strings.HasPrefix(q.path, "/healthz/"):
		return answer, nil
	case status != http.StatusOK:
		line, _, _ := strings.Cut(string(answer[:min(len(answer), 200)]), "\n")
		return nil, fmt.Errorf("the broker answers %d %s: %s", status, http.StatusText(status), line)
	}
	return answer, nil
}

// where asks a broker for its process and its data directory, 0 and "" for what is not
// known. A broker at an address of another machine has neither here.
func (i *informant) where(ctx context.Context) (pid int, dir string) {
	addr, err := i.Address()
	if err != nil || !loopback(addr) || i.silent != nil {
		return 0, ""
	}
	var st admin.Status
	content, err := i.answer(ctx, question{path: admin.PathStatus})
	if err != nil || json.Unmarshal(content, &st) != nil {
		return 0, ""
	}
	if st.Serving != nil {
		dir = st.Serving.Directory
	}
	return st.PID, dir
}

// loopback reports whether an address is one of this machine's loopback interface.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
