package tuner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/undo"
	"github.com/spf13/cobra"
)

// good is a server on which nothing important is off.
func good() fixture.Files {
	return fixture.Metal().With(fixture.Files{
		"sys/module/pcie_aspm/parameters/policy": "default [performance] powersave\n", "proc/sys/kernel/numa_balancing": "0\n",
		"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/power/pm_qos_latency_tolerance_us": "0\n",
		"dev/cpu_dma_latency": "\x00\x00\x00\x00",
	}).With(frequencies("performance"))
}

func frequencies(word string) fixture.Files {
	f := fixture.Files{}
	for cpu := range 64 {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpufreq/policy%d/", cpu)
		f[dir+"scaling_governor"], f[dir+"energy_performance_preference"] = word+"\n", word+"\n"
	}
	return f
}

// run carries out a verb on a machine.
func run(m *fixture.Machine, verb *cobra.Command, args ...string) (string, error) {
	var out bytes.Buffer
	verb.SetOut(&out)
	verb.SetErr(&out)
	verb.SilenceErrors, verb.SilenceUsage = true, true
	verb.SetArgs(append(args, "--root", m.Root()))
	err := verb.Execute()
	return out.String(), err
}

func needs() Needs {
	return Needs{
		Form: func(cmd *cobra.Command, forms ...string) func() string {
			form := cmd.Flags().StringP("output", "o", forms[0], "")
			return func() string { return *form }
		},
		DataDir: func(flag string) string {
			if flag != "" {
				return flag
			}
			return fixture.DataDir
		},
		Version: "test",
	}
}

// code is what the program would end with.
func code(err error) int {
	var s *statusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return s.status
	}
	return 1
}

func TestCheckFailsWhenSomethingImportantIsOff(t *testing.T) {
	bad := fixture.Build(t, fixture.VM().With(fixture.Files{"proc/self/limits": "Max locked memory 65536 65536 bytes\n"}))
	fine := fixture.Build(t, good())
	for _, c := range []struct {
		m    *fixture.Machine
		args string
		want int
	}{
		{bad, "", 2}, {bad, "-o json", 2}, {bad, "-o nagios", 2}, {bad, "-o prom", 0}, {bad, "--fail-on critical", 2},
		{fine, "", 0}, {fine, "-o json", 0}, {fine, "-o nagios", 0}, {fine, "--fail-on note", 2}, {fine, "--fail-on critical", 0},
		{fine, "--fail-on ok", 1}, {fine, "--profile x", 1}, {fine, "--pid -1", 1}, {fine, "--pid 99999", 1}, {fine, "--pid 99999 -o nagios", 3},
	} {
		out, err := run(c.m, NewCheck(needs()), strings.Fields(c.args)...)
		if code(err) != c.want {
			t.Errorf("check %s: status %d, want %d: %v\n%s", c.args, code(err), c.want, err, out)
		}
	}
	empty := fixture.Build(t, fixture.Files{"x": "y"})
	if _, err := run(empty, NewCheck(needs())); code(err) != 1 {
		t.Errorf("a directory that is no machine: %v", err)
	}
}

func TestWarningsAreOneForNagios(t *testing.T) {
	m := fixture.Build(t, good().With(fixture.Files{"proc/sys/kernel/numa_balancing": "1\n"}))
	out, err := run(m, NewCheck(needs()), "-o", "nagios")
	if code(err) != 1 || !strings.HasPrefix(out, "MQD HOST WARNING - ") || !strings.Contains(out, "kern.numa_balancing is 1") || strings.Count(out, "\n") != 1 {
		t.Errorf("status %d: %s", code(err), out)
	}
}

func TestTheTableSaysWhyAndHow(t *testing.T) {
	m := fixture.Build(t, fixture.Metal())
	out, _ := run(m, NewCheck(needs()))
	for _, want := range []string{
		"warning  nvme.apst nvme1", "nvme.apst nvme1: a drive that has gone to sleep", "to change it: mqd tune apply\n",
		"cpu.governor (64 times)", "to change it: mqd tune apply --class host\n", "warnings, 0 critical, as a machine of profile metal",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "blk.scheduler") {
		t.Error("what is right is shown without --all")
	}
	if all, _ := run(m, NewCheck(needs()), "--all"); !strings.Contains(all, "blk.scheduler nvme1n1") {
		t.Errorf("--all hides what is right:\n%s", all)
	}
}

func TestPromIsWhatPrometheusReads(t *testing.T) {
	m := fixture.Build(t, fixture.Metal())
	out, err := run(m, NewCheck(needs()), "-o", "prom")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) mqd_[a-z_]+ .+|mqd_[a-z_]+\{[a-z]+="[^"]*",[a-z]+="[^"]*"\} [0-9]+)$`)
	seen := map[string]bool{}
	for l := range strings.Lines(out) {
		l = strings.TrimSuffix(l, "\n")
		if !line.MatchString(l) || seen[l] {
			t.Errorf("line %q", l)
		}
		seen[l] = true
	}
	if !seen[`mqd_host_setting{id="nvme.apst",at="nvme1"} 2`] || !seen[`mqd_host_findings{level="critical",profile="metal"} 0`] {
		t.Error(out)
	}
}

// onMachine carries out a verb of mqd tune.
func onMachine(m *fixture.Machine, args ...string) (string, error) {
	return run(m, NewTune(needs()), args...)
}

func TestApplyIsShownBeforehandAndTakenBack(t *testing.T) {
	m := fixture.Build(t, plain(fixture.Metal()))
	before := m.Contents(t)
	plan, err := onMachine(m, "plan", "--class", "host", "--persist")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"echo '0' > /sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/power/pm_qos_latency_tolerance_us  # nvme.apst nvme1\n",
		"cat > /etc/sysctl.d/90-mqd.conf <<'END'\n", "\nkernel/numa_balancing = 0\n", "# CPUs for shards: mqd serve --cpus 17-31\n", "# for a person: cpu.idle_states",
	} {
		if !strings.Contains(plan, want) {
			t.Errorf("%q is not in\n%s", want, plan)
		}
	}
	if d := fixture.Differences(before, m.Contents(t)); len(d) > 0 {
		t.Fatalf("a plan changes %q", d)
	}
	out, err := onMachine(m, "apply", "--class", "host", "--persist")
	if err != nil || !strings.Contains(out, "kern.numa_balancing: 0, was 1\n") || !strings.Contains(out, "wrote /"+tuning.UdevFile) {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = onMachine(m, "apply", "--class", "host"); err != nil || out != "nothing to change\n" {
		t.Errorf("a second apply: %v\n%s", err, out)
	}
	if out, err = onMachine(m, "status"); err != nil || !strings.Contains(out, "1: 20") || !strings.Contains(out, "this boot") || strings.Contains(out, "changed since") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = onMachine(m, "revert"); err != nil || !strings.Contains(out, "changes taken back") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, d := range fixture.Differences(before, m.Contents(t)) {
		t.Error(d)
	}
	if out, err = onMachine(m, "revert"); err != nil || out != "mqd tune has changed nothing\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// plain is a machine without lists of words, which plain files cannot play.
func plain(f fixture.Files) fixture.Files {
	for path, text := range f {
		if strings.Contains(text, "[") {
			f[path] = undo.Chosen(text) + "\n"
		}
		// Values are written without the line's end that the kernel adds.
		if text := f[path]; strings.HasPrefix(path, "sys/") || strings.HasPrefix(path, "proc/sys/") {
			f[path] = strings.TrimSuffix(text, "\n")
		}
	}
	return f
}

func TestOnlyHarmlessChangesAreMadeUnlessAskedFor(t *testing.T) {
	m := fixture.Build(t, plain(fixture.Metal()))
	if _, err := onMachine(m, "apply"); err != nil {
		t.Fatal(err)
	}
	if m.Text("proc/sys/kernel/numa_balancing") != "1" || m.Text("sys/class/nvme/nvme1/power/pm_qos_latency_tolerance_us") != "0" {
		t.Error("class safe changes what others feel, or does not change what they do not")
	}
	for _, class := range []string{"unsafe", "reboot", "manual", "all"} {
		if _, err := onMachine(m, "apply", "--class", class); code(err) != 1 {
			t.Errorf("--class %s: %v", class, err)
		}
	}
}

func TestRevertLeavesWhatOthersHaveChanged(t *testing.T) {
	m := fixture.Build(t, plain(fixture.Metal()))
	if _, err := onMachine(m, "apply", "--class", "host"); err != nil {
		t.Fatal(err)
	}
	m.Put(t, fixture.Files{"proc/sys/vm/swappiness": "33"})
	_, err := onMachine(m, "revert")
	if err == nil || !strings.Contains(err.Error(), `vm.swappiness: /proc/sys/vm/swappiness: undo: changed by somebody else since: found "33", expected "10"; before it was "60"`) {
		t.Fatalf("error %v", err)
	}
	if out, _ := onMachine(m, "status"); !strings.Contains(out, "vm.swappiness") || !strings.Contains(out, "changed since") {
		t.Error(out)
	}
	if _, err := onMachine(m, "revert", "--force"); err != nil || m.Text("proc/sys/vm/swappiness") != "60" {
		t.Errorf("swappiness %s, %v", m.Text("proc/sys/vm/swappiness"), err)
	}
}

func TestStatusTellsWhatHolds(t *testing.T) {
	m := fixture.Build(t, plain(fixture.VM().With(fixture.Files{"dev/cpu_dma_latency": "\x0a\x00\x00\x00"})))
	if out, err := onMachine(m, "status"); err != nil || out != "CPUs wake within 10 us, as long as a program holds that\nmqd tune has changed nothing\n" {
		t.Errorf("%v\n%s", err, out)
	}
	m.Put(t, fixture.Files{"dev/cpu_dma_latency": "\x00\x94\x35\x77"}) // what the kernel has without
	if _, err := onMachine(m, "apply", "--class", "host", "--persist"); err != nil {
		t.Fatal(err)
	}
	read := func(want int) *status {
		t.Helper()
		out, err := onMachine(m, "status", "-o", "json")
		if code(err) != want {
			t.Fatalf("status %d, want %d: %v\n%s", code(err), want, err, out)
		}
		st := &status{}
		if err := json.Unmarshal([]byte(out), st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := read(0)
	if len(st.Records) != 1 || !st.Records[0].ThisBoot || st.Records[0].Profile != "vm" || st.WakeLimitMicros != nil {
		t.Fatalf("%+v", st)
	}
	at := slices.IndexFunc(st.Records[0].Changes, func(c changeStatus) bool { return c.ID == "vm.swappiness" })
	if at < 0 || st.Records[0].Changes[at] != (changeStatus{"vm.swappiness", "/proc/sys/vm/swappiness", undo.Made, "60", "10"}) {
		t.Errorf("%+v", st.Records[0].Changes)
	}
	m.Put(t, fixture.Files{"proc/sys/vm/swappiness": "33"})
	if c := read(2).Records[0].Changes[at]; c.State != undo.Other {
		t.Errorf("%+v", c)
	}
}

func TestExplainNamesWhatIsRefused(t *testing.T) {
	var out bytes.Buffer
	verb := NewTune(needs())
	verb.SetOut(&out)
	verb.SetArgs([]string{"explain"})
	if err := verb.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, s := range tuning.Catalogue() {
		if !strings.Contains(out.String(), s.ID+" (class ") {
			t.Errorf("%s is not explained", s.ID)
		}
	}
	for _, a := range tuning.Refused() {
		if !strings.Contains(out.String(), a.ID+": \""+a.Text) || !strings.Contains(out.String(), "not done: "+a.Why) {
			t.Errorf("%s is not explained", a.ID)
		}
	}
	verb.SetArgs([]string{"explain", "no.such"})
	verb.SilenceErrors, verb.SilenceUsage = true, true
	if err := verb.Execute(); err == nil {
		t.Error("what is not there is explained")
	}
}

func TestJSONIsWhatItsSchemaSays(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(tuning.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	for name, files := range map[string]fixture.Files{
		"server": fixture.Metal(), "virtual machine": fixture.VM(), "laptop": fixture.Laptop(),
		"almost nothing": {"proc/sys/kernel/osrelease": "6.12.0\n"},
	} {
		out, _ := run(fixture.Build(t, files), NewCheck(needs()), "-o", "json")
		var report any
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		for _, p := range validate(schema, report, "report") {
			t.Errorf("%s: %s", name, p)
		}
	}
	printed, err := run(fixture.Build(t, fixture.Files{"x": "y"}), NewCheck(needs()), "--schema")
	if err != nil || printed != tuning.Schema {
		t.Errorf("--schema prints something else: %v", err)
	}
}

// A validator that accepts everything would hold nothing to the schema.
func TestTheValidatorRefuses(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(tuning.Schema), &schema); err != nil {
		t.Fatal(err)
	}
	out, _ := run(fixture.Build(t, fixture.VM()), NewCheck(needs()), "-o", "json")
	for old, bent := range map[string]string{
		`"version": 1`: `"version": 2`, `"profile": "vm"`: `"profile": 3`, `"profile": "v`: `"profile": "w`,
		`"counts"`: `"count"`, `"class": "safe"`: `"class": "sane"`, `"number": 0`: `"number": -1`, `"why"`: `"because"`,
	} {
		var report any
		if err := json.Unmarshal([]byte(strings.Replace(out, old, bent, 1)), &report); err != nil {
			t.Fatal(err)
		}
		if len(validate(schema, report, "report")) == 0 {
			t.Errorf("%s in place of %s is accepted", bent, old)
		}
	}
}

// validate holds a value to the parts of JSON Schema that the schema uses.
func validate(schema map[string]any, value any, at string) (bad []string) {
	complain := func(format string, args ...any) { bad = append(bad, at+": "+fmt.Sprintf(format, args...)) }
	for word := range schema {
		if !slices.Contains([]string{"$schema", "title", "type", "properties", "required", "additionalProperties", "items", "enum", "minimum"}, word) {
			complain("the validator does not know %q", word)
		}
	}
	types, ok := schema["type"].([]any)
	if !ok {
		types = []any{schema["type"]}
	}
	if !slices.Contains(types, any(typeOf(value))) && !(typeOf(value) == "integer" && slices.Contains(types, any("number"))) {
		complain("%v is %s, expected %v", value, typeOf(value), types)
		return bad
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, value) {
		complain("%v is none of %v", value, enum)
	}
	if least, ok := schema["minimum"].(float64); ok && value.(float64) < least {
		complain("%v is less than %v", value, least)
	}
	if list, ok := value.([]any); ok {
		for i, v := range list {
			bad = append(bad, validate(schema["items"].(map[string]any), v, fmt.Sprintf("%s[%d]", at, i))...)
		}
	}
	object, ok := value.(map[string]any)
	if !ok {
		return bad
	}
	properties := schema["properties"].(map[string]any)
	for _, name := range schema["required"].([]any) {
		if _, ok := object[name.(string)]; !ok {
			complain("%v is missing", name)
		}
	}
	for name, v := range object {
		if sub, ok := properties[name].(map[string]any); ok {
			bad = append(bad, validate(sub, v, at+"."+name)...)
		} else if schema["additionalProperties"] == false {
			complain("%s is too much", name)
		}
	}
	return bad
}

func typeOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	}
	return "unknown"
}

// What a program reads of a plan is what apply does.
func TestAPlanIsToldToProgramsToo(t *testing.T) {
	m := fixture.Build(t, plain(fixture.VM()))
	read := func(args ...string) *plan {
		t.Helper()
		out, err := onMachine(m, append([]string{"plan", "-o", "json"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		p := &plan{}
		dec := json.NewDecoder(strings.NewReader(out))
		dec.DisallowUnknownFields()
		if err := dec.Decode(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	safe, all := read(), read("--class", "host", "--persist")
	if len(safe.HostWide) == 0 || len(all.HostWide) != 0 || len(all.ByHand) == 0 || all.Version != 1 || all.Profile != "vm" || !all.Persist || safe.Persist {
		t.Fatalf("%+v\n%+v", safe, all)
	}
	values := map[string]string{}
	for _, ch := range safe.Changes {
		values[ch.Path] = ch.New
	}
	for _, ch := range safe.HostWide {
		values[ch.Path] = ch.New
	}
	files := 0
	for _, ch := range all.Changes {
		if ch.Kind == undo.File {
			files++
			continue
		}
		if values[ch.Path] != ch.New || ch.Found == "" || ch.Found == ch.New {
			t.Errorf("%+v, without --class host %q", ch, values[ch.Path])
		}
		delete(values, ch.Path)
	}
	if len(values) > 0 || files == 0 {
		t.Errorf("%v of all that may be changed is not, %d files", values, files)
	}
	if _, err := onMachine(m, "apply", "--class", "host", "--persist"); err != nil {
		t.Fatal(err)
	}
	for _, ch := range all.Changes {
		got, err := m.Read(strings.TrimPrefix(ch.Path, "/"))
		if err != nil || ch.Kind == undo.File && string(got) != ch.New {
			t.Errorf("%s: %v\n%s", ch.Path, err, got)
		}
	}
	if p := read("--class", "host"); len(p.Changes) != 0 || p.Changes == nil {
		t.Errorf("after apply: %+v", p.Changes)
	}
}
