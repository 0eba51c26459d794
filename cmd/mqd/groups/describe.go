package groups

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// report is a described group in JSON.
type report struct {
	Group       string      `json:"group"`
	Mode        string      `json:"mode"`
	Generation  int32       `json:"generation"`
	IdleSeconds float64     `json:"idle_seconds"`
	Members     []member    `json:"members"`
	Table       []tableRow  `json:"table"`
	Partitions  []partition `json:"partitions"`
}

type member struct {
	ID               string   `json:"id"`
	Instance         string   `json:"instance"`
	Client           string   `json:"client"`
	SessionSeconds   float64  `json:"session_seconds"`
	RemainingSeconds float64  `json:"remaining_seconds"`
	Generation       int32    `json:"generation"`
	Topics           []string `json:"topics"`
	Partitions       *int64   `json:"partitions"` // null for a Kafka client, which knows them alone
	Leaving          *int64   `json:"leaving"`
}

type tableRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Instance  string `json:"instance"`
	Away      bool   `json:"away"`
}

// partition is a row of lag. What is not known is null.
type partition struct {
	Topic      string     `json:"topic"`
	Partition  int32      `json:"partition"`
	Committed  *int64     `json:"committed"`
	Epoch      int32      `json:"epoch"`
	Metadata   string     `json:"metadata"`
	Time       *time.Time `json:"committed_at"`
	Start      *int64     `json:"start"`
	End        *int64     `json:"end"`
	Lag        *int64     `json:"lag_records"`
	LagSeconds *float64   `json:"lag_seconds"`
	Owner      string     `json:"owner"`
	Instance   string     `json:"instance"`
}

func (v *verbs) newDescribe() *cobra.Command {
	var chosen func() string
	cmd := &cobra.Command{
		Use:   "describe GROUP",
		Short: "Show members, partitions and lag of a group",
		Long: `Show members, partitions and lag of a group.

COMMITTED is the offset of the next message to read, END the end of what can be read.
LAG is the number of messages between them, SECONDS how much older the first unread
message is than the newest one; both are - where nothing is committed, and 0 where
retention has removed all that was not read. On a topic with message.timestamp.type
LogAppendTime the times are the broker's, else those of producers.

OWNER is the member that reads the partition. With manual assignment, partitions of an
instance that is away wait until it comes back or mqd group assign moves them.

With -o jsonl every line is a partition.`,
		Example: `  mqd group describe risk
  mqd group describe risk -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.groupNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			var d client.GroupDescription
			err := v.with(cmd, args[0], func(ctx context.Context, a *client.Admin) (err error) {
				d, err = a.DescribeGroup(ctx, args[0])
				return err
			})
			if err != nil {
				return err
			}
			r := reportOf(&d)
			return show(cmd.OutOrStdout(), chosen(), r, r.Partitions, r.write)
		},
	}
	chosen = v.form(cmd, formTable, formJSON, formLines)
	return cmd
}

func reportOf(d *client.GroupDescription) *report {
	r := &report{
		Group: d.Name, Mode: modeNames[d.Mode], Generation: d.Generation, IdleSeconds: d.Idle.Seconds(),
		Members: []member{}, Table: []tableRow{}, Partitions: []partition{},
	}
	for i := range d.Members {
		m := &d.Members[i]
		r.Members = append(r.Members, member{
			ID: idOf(m.ID), Instance: m.Instance, Client: m.Client, SessionSeconds: m.Session.Seconds(),
			RemainingSeconds: m.Remaining.Seconds(), Generation: m.Generation, Topics: append([]string{}, m.Topics...),
			Partitions: granted(d, m.Grants), Leaving: granted(d, m.Leaving),
		})
	}
	for _, t := range d.Table {
		r.Table = append(r.Table, tableRow{t.Topic, t.Partition, t.Instance, t.Away})
	}
	for i := range d.Partitions {
		p := &d.Partitions[i]
		row := partition{
			Topic: p.Topic, Partition: p.Partition, Committed: known(p.Committed), Epoch: p.Epoch, Metadata: string(p.Metadata),
			Start: known(p.Start), End: known(p.End), Lag: known(p.Lag), Owner: idOf(p.Owner), Instance: p.Instance,
		}
		if !p.Time.IsZero() {
			row.Time = &p.Time
		}
		if p.LagTime >= 0 {
			s := p.LagTime.Seconds()
			row.LagSeconds = &s
		}
		r.Partitions = append(r.Partitions, row)
	}
	return r
}

// granted is a number of partitions of a member, nil where the broker does not divide them.
func granted(d *client.GroupDescription, n int) *int64 {
	if d.Mode == wire.GroupKafka {
		return nil
	}
	return known(int64(n))
}

// known is nil for a number that is not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func idOf(id wire.MemberID) string {
	if id.IsZero() {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// write writes the report as tables.
func (r *report) write(w io.Writer) {
	fmt.Fprintf(w, "group\t%s\nmode\t%s\ngeneration\t%d\n", dash(r.Group), r.Mode, r.Generation)
	if len(r.Members) == 0 {
		fmt.Fprintf(w, "without members\t%v\n", seconds(r.IdleSeconds).Round(time.Second))
	}
	if len(r.Members) > 0 {
		fmt.Fprint(w, "\nMEMBER\tINSTANCE\tCLIENT\tSESSION\tLEFT\tGENERATION\tPARTITIONS\tLEAVING\tTOPICS\n")
	}
	for _, m := range r.Members {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%v\t%d\t%s\t%s\t%s\n", short(m.ID), dash(m.Instance), dash(m.Client),
			seconds(m.SessionSeconds), seconds(m.RemainingSeconds).Round(100*time.Millisecond), m.Generation, number(m.Partitions), number(m.Leaving), dash(strings.Join(m.Topics, ",")))
	}
	waits := map[[2]string]bool{}
	if len(r.Table) > 0 {
		fmt.Fprint(w, "\nTOPIC\tPARTITION\tASSIGNED TO\tSTATE\n")
	}
	for _, t := range r.Table {
		state := "connected"
		if t.Away {
			state = "away: the partition waits"
			waits[[2]string{t.Topic, strconv.Itoa(int(t.Partition))}] = true
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", dash(t.Topic), t.Partition, dash(t.Instance), state)
	}
	if len(r.Partitions) > 0 {
		fmt.Fprint(w, "\nTOPIC\tPARTITION\tCOMMITTED\tSTART\tEND\tLAG\tSECONDS\tOWNER\n")
	}
	for _, p := range r.Partitions {
		behind := "-"
		if p.LagSeconds != nil {
			behind = strconv.FormatFloat(*p.LagSeconds, 'f', 3, 64)
		}
		owner := dash(short(p.Owner))
		if p.Instance != "" {
			owner = dash(p.Instance)
		}
		if waits[[2]string{p.Topic, strconv.Itoa(int(p.Partition))}] {
			owner = "waits"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", dash(p.Topic), p.Partition, number(p.Committed), number(p.Start), number(p.End), number(p.Lag), behind, owner)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// dash shows what a client calls something, which may be anything: in a table it must
// neither make rows and columns nor give orders to the terminal.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// short is enough of an id to tell members apart.
func short(id string) string { return id[:min(len(id), 8)] }
