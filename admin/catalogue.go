package admin

// Metric describes a metric.
type Metric struct {
	Name string
	// Kind is counter, gauge or histogram, in Prometheus' words.
	Kind   string
	Help   string
	Labels []string
	// Private metrics have a series for each partition, and are not served at
	// [PathPublicMetrics].
	Private bool
}

// Metrics are all that are served, in their order.
func Metrics() []Metric {
	var all []Metric
	for _, f := range families() {
		all = append(all, Metric{Name: f.name, Kind: f.kind, Help: f.help, Labels: f.labels, Private: f.private})
	}
	return all
}
