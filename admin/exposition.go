package admin

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/engine/stage"
)

// Kinds of metrics, in Prometheus' words.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// family is a metric: its samples differ in the values of their labels.
type family struct {
	name, kind, help string
	labels           []string
	// private families have a series for each partition. They are left out where the
	// number of series has to be bounded.
	private bool
	// collect tells the samples: a value, and the values of the labels in their order.
	collect func(v *view, sample func(value float64, labels ...string))
	// distribute does so for histograms, instead of collect.
	distribute func(v *view, sample func(h *stage.Histogram, labels ...string))
}

// contentType is that of Prometheus' text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// bounds are those of a histogram's buckets, in nanoseconds: from 10 us to 10 s.
var bounds = []int64{
	10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
	25_000_000, 50_000_000, 100_000_000, 250_000_000, 500_000_000, 1_000_000_000, 2_500_000_000, 5_000_000_000, 10_000_000_000,
}

// write writes a family in the text format; one without samples is left out.
func (f *family) write(out *bytes.Buffer, v *view) {
	headed := false
	sample := func(name, le string, value float64, labels []string) {
		if !headed {
			headed = true
			out.WriteString("# HELP " + f.name + " " + escapeHelp.Replace(f.help) + "\n")
			out.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
		}
		out.WriteString(name)
		mark := byte('{')
		label := func(name, value string) {
			out.WriteByte(mark)
			mark = ','
			out.WriteString(name + `="` + escapeLabel.Replace(value) + `"`)
		}
		for i, name := range f.labels {
			label(name, labels[i])
		}
		if le != "" {
			label("le", le)
		}
		if mark == ',' {
			out.WriteByte('}')
		}
		out.WriteByte(' ')
		out.Write(strconv.AppendFloat(out.AvailableBuffer(), value, 'g', -1, 64))
		out.WriteByte('\n')
	}
	if f.distribute == nil {
		f.collect(v, func(value float64, labels ...string) { sample(f.name, "", value, labels) })
		return
	}
	f.distribute(v, func(h *stage.Histogram, labels ...string) {
		for _, b := range bounds {
			sample(f.name+"_bucket", strconv.FormatFloat(nanos(b), 'g', -1, 64), float64(h.Below(b)), labels)
		}
		sample(f.name+"_bucket", "+Inf", float64(h.Total), labels)
		sample(f.name+"_sum", "", float64(h.Sum)/1e9, labels)
		sample(f.name+"_count", "", float64(h.Total), labels)
	})
}
