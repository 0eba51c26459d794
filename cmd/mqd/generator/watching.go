package generator

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mqd-broker/mqd/admin"
	"github.com/spf13/cobra"
)

// alert is a rule that wakes somebody, or tells.
type alert struct {
	name, expr, wait, severity, text string
}

// alerts are what docs/operating/admin.md says to be woken for, and what to know by day.
var alerts = []alert{
	{"MqdLogFailed", "mqd_log_failed > 0", "0m", "critical", "a write or a flush has failed; put the cause right, then mqd admin reopen"},
	{"MqdNotReady", "mqd_ready == 0", "1m", "critical", "nothing is taken, or nothing is served; /healthz/ready says why"},
	{"MqdDiskFull", "mqd_disk_full > 0", "0m", "critical", "producers are refused; make room or delete topics"},
	{"MqdCorruptReads", "increase(mqd_corrupt_reads_total[5m]) > 0", "0m", "critical", "a consumer has met damage; run mqd verify"},
	{"MqdDamageAtStart", "mqd_recovery_losses + mqd_recovery_damaged > 0", "0m", "critical", "the start has found damage; its log lines say where"},
	{"MqdMissingSegments", "mqd_missing_segments > 0", "0m", "critical", "files are gone from the data directory"},
	{"MqdRotFound", "increase(mqd_scrub_damaged_total[1h]) > 0", "0m", "warning", "scrubbing has found places that cannot be read; run mqd verify"},
	{"MqdShardSilent", "mqd_shard_answered == 0", "1m", "critical", "a shard does not answer; the machine or the process stands still"},
	{"MqdJournalFull", "mqd_journal_used_bytes / mqd_journal_size_bytes > 0.9", "5m", "warning", "segments cannot keep up, and producers are slowed down"},
	{"MqdShardBusy", "rate(mqd_shard_busy_seconds_total[5m]) > 0.9", "10m", "warning", "a shard's CPU is full; more shards, or larger batches"},
	{"MqdStalls", "rate(mqd_shard_stalls_total[5m]) > 1", "10m", "warning", "turns of more than 5 ms; somebody takes the CPU: mqd check"},
	{"MqdScaleFetchLatency", `mqd_scale_signal{signal="fetch_latency"} > 0`, "0m", "warning", "for 30 s consumers have waited longer for messages that are there than scale.fetch_latency; more shards, or another broker"},
	{"MqdScaleProduceRate", `mqd_scale_signal{signal="produce_rate"} > 0`, "0m", "warning", "for 30 s more has come in than scale.produce_rate; more shards, or another broker"},
	{"MqdDeviceSlow", `histogram_quantile(0.99, sum by (shard, le) (rate(mqd_stage_seconds_bucket{stage="device"}[5m]))) > 0.05`, "10m", "warning", "durable writes take more than 50 ms; look at the drive"},
}

// alertRules are the rules as Prometheus reads them.
func alertRules() string {
	var out strings.Builder
	out.WriteString("# Alerts for mqd, as mqd generate alerts prints them.\ngroups:\n  - name: mqd\n    rules:\n")
	for _, a := range alerts {
		fmt.Fprintf(&out, "      - alert: %s\n        expr: %s\n        for: %s\n        labels:\n          severity: %s\n        annotations:\n          summary: %s\n",
			a.name, quote(a.expr), a.wait, a.severity, quote(a.text))
	}
	return out.String()
}

// quote makes a string of YAML.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// Sizes of panels on a dashboard, which is 24 wide.
const (
	panelWidth  = 8
	panelHeight = 7
	across      = 3
)

// dashboard is one of Grafana with a panel for each metric that is served without
// partitions.
func dashboard() (string, error) {
	var panels []map[string]any
	for _, m := range admin.Metrics() {
		if m.Private {
			continue
		}
		n := len(panels)
		expr, legend := query(m)
		panels = append(panels, map[string]any{
			"id": n + 1, "type": "timeseries", "title": title(m.Name), "description": m.Help,
			"datasource":  map[string]any{"type": "prometheus", "uid": "${source}"},
			"gridPos":     map[string]any{"h": panelHeight, "w": panelWidth, "x": n % across * panelWidth, "y": n / across * panelHeight},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": unit(m)}, "overrides": []any{}},
			"targets":     []any{map[string]any{"refId": "A", "expr": expr, "legendFormat": legend}},
		})
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "mqd", "uid": "mqd", "schemaVersion": 39, "refresh": "10s", "tags": []string{"mqd"},
		"time":       map[string]any{"from": "now-1h", "to": "now"},
		"templating": map[string]any{"list": []any{map[string]any{"name": "source", "type": "datasource", "query": "prometheus"}}},
		"panels":     panels,
	}, "", "  ")
	return string(text) + "\n", err
}

// query is what a panel asks, and how its series are called.
func query(m admin.Metric) (expr, legend string) {
	legend = "{{instance}}"
	for _, l := range m.Labels {
		legend += " {{" + l + "}}"
	}
	switch m.Kind {
	case "counter":
		return "rate(" + m.Name + "[$__rate_interval])", legend
	case "histogram":
		by := strings.Join(append([]string{"instance", "le"}, m.Labels...), ", ")
		return "histogram_quantile(0.99, sum by (" + by + ") (rate(" + m.Name + "_bucket[$__rate_interval])))", legend + " p99"
	}
	return m.Name, legend
}

// title is a metric's name in words.
func title(name string) string {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "mqd_"), "_total")
	return strings.ReplaceAll(name, "_", " ")
}

// unit is Grafana's name of the unit that a metric's name ends in.
func unit(m admin.Metric) string {
	name, counts := strings.TrimSuffix(m.Name, "_total"), m.Kind == "counter"
	switch {
	case strings.HasSuffix(name, "time_seconds"):
		return "dateTimeAsIso"
	case strings.HasSuffix(name, "_bytes") && counts:
		return "Bps"
	case strings.HasSuffix(name, "_bytes"):
		return "bytes"
	case strings.HasSuffix(name, "_seconds") && counts:
		return "percentunit"
	case strings.HasSuffix(name, "_seconds"):
		return "s"
	case counts:
		return "ops"
	}
	return "short"
}

func newAlerts() *cobra.Command {
	return printing(&cobra.Command{
		Use:   "alerts",
		Short: "Write alert rules for Prometheus",
		Long: `Write rules for Prometheus' alerts: what somebody should be woken for, with severity
critical, and what should be looked at by day, with severity warning.`,
		Example: `  mqd generate alerts > mqd-alerts.yaml`,
	}, alertRules())
}

func newDashboard() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grafana",
		Short: "Write a dashboard for Grafana",
		Long: `Write a dashboard for Grafana with a panel for every metric that is served at
/metrics/public: rates of counters, the p99 of histograms, gauges as they are. It is made
of the same table as the metrics.`,
		Example: `  mqd generate grafana > mqd-dashboard.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := dashboard()
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			}
			return err
		},
	}
	return cmd
}
