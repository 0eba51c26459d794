package admin

import (
	"bytes"
	"strconv"
	"strings"
)

// Kinds of metrics, in Prometheus' words.
const (
	counter = "counter"
	gauge   = "gauge"
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
}

// contentType is that of Prometheus' text format.
const contentType = "text/plain; version=0.0.4; charset=utf-8"

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// write writes a family in the text format; one without samples is left out.
func (f *family) write(out *bytes.Buffer, v *view) {
	headed := false
	f.collect(v, func(value float64, labels ...string) {
		if !headed {
			headed = true
			out.WriteString("# HELP " + f.name + " " + escapeHelp.Replace(f.help) + "\n")
			out.WriteString("# TYPE " + f.name + " " + f.kind + "\n")
		}
		out.WriteString(f.name)
		for i, name := range f.labels {
			mark := byte(',')
			if i == 0 {
				mark = '{'
			}
			out.WriteByte(mark)
			out.WriteString(name + `="` + escapeLabel.Replace(labels[i]) + `"`)
		}
		if len(f.labels) > 0 {
			out.WriteByte('}')
		}
		out.WriteByte(' ')
		out.Write(strconv.AppendFloat(out.AvailableBuffer(), value, 'g', -1, 64))
		out.WriteByte('\n')
	})
}
