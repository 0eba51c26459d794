package admin

import (
	"net/http"
	"strconv"

	"github.com/mqd-broker/mqd/node"
)

// maxGroupRows bounds the groups and their partitions that are told of: for each partition
// a page of the log may be read.
const maxGroupRows = 4096

// groupsJSON is the answer of /v1/groups.
type groupsJSON struct {
	Groups []groupJSON `json:"groups"`
	// LeftOut counts groups and partitions that are not among them.
	LeftOut int `json:"left_out"`
}

// groupJSON is a consumer group.
type groupJSON struct {
	Name       string          `json:"name"`
	Mode       string          `json:"mode"`
	State      string          `json:"state"`
	Generation int32           `json:"generation"`
	Members    int             `json:"members"`
	Partitions []groupPartJSON `json:"partitions"`
}

// groupPartJSON is a partition for which it has committed something. What is not known is
// null.
type groupPartJSON struct {
	Topic      string   `json:"topic"`
	Partition  int32    `json:"partition"`
	Committed  int64    `json:"committed"`
	Start      *int64   `json:"start"`
	End        *int64   `json:"end"`
	Lag        *int64   `json:"lag_records"`
	LagSeconds *float64 `json:"lag_seconds"`
}

// groups serves all consumer groups with their lag.
func (s *Server) groups(w http.ResponseWriter, r *http.Request) {
	all := groupsJSON{Groups: []groupJSON{}}
	if c := s.opts.Service.Condition(); c.Node != nil {
		var list []node.GroupFigures
		list, all.LeftOut = c.Node.GroupFigures(r.Context(), maxGroupRows)
		for i := range list {
			all.Groups = append(all.Groups, groupOf(&list[i]))
		}
	}
	writeJSON(w, all)
}

func groupOf(g *node.GroupFigures) groupJSON {
	one := groupJSON{
		Name: g.Name, Mode: g.Mode, State: g.State.String(), Generation: g.Generation, Members: g.Members,
		Partitions: []groupPartJSON{},
	}
	for i := range g.Partitions {
		p := &g.Partitions[i]
		row := groupPartJSON{
			Topic: p.Topic, Partition: p.Partition, Committed: p.Next, Start: known(p.Start), End: known(p.End), Lag: known(p.Records),
		}
		if p.Behind >= 0 {
			s := p.Behind.Seconds()
			row.LagSeconds = &s
		}
		one.Partitions = append(one.Partitions, row)
	}
	return one
}

// known is n, or nil for what is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

// ofGroups are the metrics of consumer groups.
func ofGroups() []family {
	of := func(name, help string, get func(g *node.GroupFigures) float64) family {
		return family{name: name, kind: gauge, help: help, labels: []string{"group"}, private: true,
			collect: func(v *view, sample func(float64, ...string)) {
				for i := range v.groups {
					sample(get(&v.groups[i]), v.groups[i].Name)
				}
			}}
	}
	part := func(name, help string, get func(p *node.GroupPartition) (float64, bool)) family {
		return family{name: name, kind: gauge, help: help, labels: []string{"group", "topic", "partition"}, private: true,
			collect: func(v *view, sample func(float64, ...string)) {
				for i := range v.groups {
					g := &v.groups[i]
					for k := range g.Partitions {
						p := &g.Partitions[k]
						if n, ok := get(p); ok {
							sample(n, g.Name, p.Topic, strconv.Itoa(int(p.Partition)))
						}
					}
				}
			}}
	}
	return []family{
		of("mqd_group_members", "Members of a consumer group.", func(g *node.GroupFigures) float64 { return float64(g.Members) }),
		of("mqd_group_generation", "Generation of a consumer group: how often its partitions have been divided.", func(g *node.GroupFigures) float64 { return float64(g.Generation) }),
		{name: "mqd_group_state", kind: gauge, labels: []string{"group", "state"}, private: true,
			help: "1 for how a consumer group is: empty without members, moving while a member has to give partitions up, waiting for an instance that is away, else stable.",
			collect: func(v *view, sample func(float64, ...string)) {
				for i := range v.groups {
					for _, s := range node.GroupStates() {
						sample(number(v.groups[i].State == s), v.groups[i].Name, s.String())
					}
				}
			}},
		part("mqd_group_lag_records", "Offsets between what a group has committed and the end of a partition; missing where nothing is committed.",
			func(p *node.GroupPartition) (float64, bool) { return float64(p.Records), p.Records >= 0 }),
		part("mqd_group_lag_seconds", "How much older the first message that a group has not read is than the newest of the partition, by the broker's time of their appends.",
			func(p *node.GroupPartition) (float64, bool) { return p.Behind.Seconds(), p.Behind >= 0 }),
		{name: "mqd_groups_left_out", kind: gauge, private: true,
			help: "Groups and partitions of groups without series of their own, because there are more than 4096 together or because a shard did not answer.",
			collect: func(v *view, sample func(float64, ...string)) {
				if v.figures != nil {
					sample(float64(v.ungrouped))
				}
			}},
	}
}
