package report

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/agent"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/tuning"
)

// Version is the form of result.json. It changes when a reader of the old one
// would take the new one wrongly.
const Version = "mqd-bench-result/2"

// versions are those that are read. 2 has more than 1, and nothing else in its place.
var versions = []string{"mqd-bench-result/1", Version}

// Name is the file that a result is in.
const Name = "result.json"

// Schema is the JSON Schema of result.json.
//
//go:embed result.schema.json
var Schema []byte

// ErrDocument: a file is no result, or one of a form that this program does not
// know.
var ErrDocument = errors.New("no result of mqd bench")

// Document is result.json.
type Document struct {
	// Schema is Version.
	Schema string `json:"schema"`
	// Verb of mqd bench that has measured, and its arguments.
	Verb    string    `json:"verb"`
	Args    []string  `json:"args"`
	Started time.Time `json:"started"`
	// Colocated says that broker and clients ran on one machine, and took CPU from
	// each other.
	Colocated bool         `json:"colocated"`
	Host      machine.Host `json:"host"`
	// Agents are those that have produced and consumed, none if Host has.
	Agents []*agent.Agent `json:"agents,omitempty"`
	// Settings are the broker's, as it tells them; "" where it does not.
	Settings string `json:"settings,omitempty"`
	// Check is what mqd check says of the machine that the clients ran on, nil where it
	// cannot be told.
	Check     *tuning.Brief     `json:"check,omitempty"`
	Jitter    bench.Jitter      `json:"jitter"`
	Placement machine.Placement `json:"placement"`
	Floors    Floors            `json:"floors"`
	Cases     []*bench.Case     `json:"cases"`
	// Steps are what a search for a rate has tried, in order.
	Steps []Step `json:"steps,omitempty"`
}

// Floors are what disk and network of the machine take by themselves, measured
// with the cases.
type Floors struct {
	Disk    []bench.DiskResult `json:"disk"`
	Network []bench.NetResult  `json:"network"`
}

// Step is one rate that was tried.
type Step struct {
	Rate     int64   `json:"rate"`
	Achieved float64 `json:"achieved"`
	P50      int64   `json:"p50_ns"`
	P99      int64   `json:"p99_ns"`
	P999     int64   `json:"p999_ns"`
	// Broken says why the rate is too high, "" if it is not.
	Broken string `json:"broken,omitempty"`
}

// Read reads a result from its file, or from the directory that it is in.
func Read(path string) (*Document, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, Name)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDocument, path, err)
	}
	if !slices.Contains(versions, d.Schema) {
		return nil, fmt.Errorf("%w: %s has the form %q, expected one of %q", ErrDocument, path, d.Schema, versions)
	}
	for i, c := range d.Cases {
		if c == nil || c.Result == nil || c.Result.Series == nil {
			return nil, fmt.Errorf("%w: %s: case %d has no result", ErrDocument, path, i+1)
		}
	}
	return &d, nil
}
