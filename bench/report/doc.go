// Package report is what a measurement leaves behind: result.json, whose form has a
// version and a JSON Schema ([Schema]), histograms in the forms of HdrHistogram's
// tools, the course over time as CSV, and one page of HTML that needs nothing else.
// It also reads results again and compares them.
package report
