package settings

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file, or rewrites it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (rewrite it with -update and review the change); now:\n%s", path, got)
	}
}

func TestALaterLayerWins(t *testing.T) {
	file, err := FromFile("testdata/config/all_layers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	env, err := FromEnv([]string{"MQD_JOURNAL__SIZE=32MiB", "MQD_CACHE__SIZE=64MiB", "MQD_NET__INSECURE=true", "MQD_PORT_7878_TCP=x", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	flags := Layer{"cache.size": {"16MiB", "flag --cache-size"}, "net.insecure": {"false", "flag --insecure"}}
	c, err := Merge(file, env, flags)
	if err != nil {
		t.Fatal(err)
	}
	if c.DataDir != "/srv/mqd" || c.JournalSize != 32<<20 || c.CacheSize != 16<<20 || c.Insecure || fmt.Sprint(c.CPUs) != "[2 3 8 9]" {
		t.Errorf("%+v", c.Options)
	}
	var out bytes.Buffer
	if err := c.Print(&out, WithSources); err != nil {
		t.Fatal(err)
	}
	golden(t, "layers.yaml", out.Bytes())
}

// Values that another broker took for numbers: nothing here guesses. Texts stay as they
// are, sizes are exact or refused with line and column, and so are keys that nobody knows;
// the environment wins over the file.
func TestC9ValuesAreTakenAsTheyStandOrRefusedWithTheirPlace(t *testing.T) {
	for _, text := range []string{"4e2abc", "0K1abc", "8m4dwr", "1e6", "0x10", "012", "true", "~x", "12:30"} {
		l, err := parseFile("f", strings.NewReader("data:\n  dir: "+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := Merge(l); err != nil || c.DataDir != text {
			t.Errorf("%q has become %q, %v", text, c.DataDir, err)
		}
	}
	for text, want := range map[string]string{
		"cache:\n  size: 4Mb\n":          `f:2:9: cache.size is "4Mb", expected a size such as 4096, 64KiB or 512MiB`,
		"cache:\n  size: 1.5GiB\n":       `f:2:9: cache.size is "1.5GiB", expected a size such as 4096, 64KiB or 512MiB`,
		"data:\n  dir: [a, b]\n":         `f:2:8: data.dir: expected a single value`,
		"cache: {size: 1e6}\n":           `f:1:15: cache.size is "1e6", expected a size such as 4096, 64KiB or 512MiB`,
		"net:\n  pasword: x\n":           `f:2:3: there is no setting "net.pasword"; "mqd config print" lists all`,
		"# one\njurnal:\n  size: 8MiB\n": `f:2:1: there is no section "jurnal"; did you mean "journal"?`,
	} {
		l, err := parseFile("f", strings.NewReader(text))
		if err == nil {
			_, err = Merge(l)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
	l, err := parseFile("f", strings.NewReader("cache:\n  size: 4MiB\n"))
	if err != nil {
		t.Fatal(err)
	}
	env, err := FromEnv([]string{"MQD_CACHE__SIZE=64MiB"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Merge(l, env); err != nil || c.CacheSize != 64<<20 {
		t.Errorf("cache.size is %d, %v", c.CacheSize, err)
	}
}

func TestThePrintedConfigurationReadsBackTheSame(t *testing.T) {
	c, err := Merge(Layer{
		"data.dir": {"a dir: #1", "x"}, "shard.cpus": {"0-3,6", "x"}, "net.listen": {"[::1]:0", "x"},
		"net.insecure": {"true", "x"}, "shard.spin": {"10us", "x"}, "shard.count": {"3", "x"}, "shard.pin": {"off", "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := c.Print(&first, WithoutSources); err != nil {
		t.Fatal(err)
	}
	file, err := parseFile("f", strings.NewReader(first.String()))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Merge(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Print(&second, WithoutSources); err != nil || first.String() != second.String() {
		t.Errorf("%v\nprinted %s\nand then %s", err, &first, &second)
	}
}

func TestAnEmptyValueIsPrintedAsOne(t *testing.T) {
	c, err := Merge(Layer{AdminListen: {"", "f:1"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Print(&out, WithoutSources); err != nil {
		t.Fatal(err)
	}
	file, err := parseFile("f", &out)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Merge(file); err != nil || again.AdminListen != "" || !again.IsSet(AdminListen) {
		t.Errorf("read back as %q: %v", again.AdminListen, err)
	}
}

func TestOneSettingCanBeAdopted(t *testing.T) {
	running, now := defaults(t), defaults(t)
	now, err := Merge(Layer{LogLevel: {"debug", "f:1"}, Idle: {"busy", "f:2"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Adopt(LogLevel, now); err != nil {
		t.Fatal(err)
	}
	if running.LogLevel != "debug" || running.Text(LogLevel) != "debug" || running.Where(LogLevel) != "f:1" || running.Idle != IdleAdaptive || running.IsSet(Idle) {
		t.Errorf("%+v", running.Options)
	}
	if err := running.Adopt("log.levle", now); err == nil {
		t.Error("a setting that there is not was adopted")
	}
}

// Each file of testdata/config that begins with bad_ is refused in the words of the
// golden file.
func TestProblemsOfTheFileAreNamedWithTheirLines(t *testing.T) {
	paths, err := filepath.Glob("testdata/config/bad_*.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatal(paths, err)
	}
	var all bytes.Buffer
	for _, path := range paths {
		file, err := FromFile(path)
		if err == nil {
			_, err = Merge(file)
		}
		if err == nil {
			t.Errorf("%s was accepted", path)
		}
		fmt.Fprintln(&all, err)
	}
	golden(t, "config_errors.txt", all.Bytes())
}

func TestAFileWithoutSettingsIsAllDefaults(t *testing.T) {
	for _, text := range []string{"", "\n\n", "# nothing\n", "---\n", "journal:\n", "journal:\n  # size: 1MiB\nnet:\n"} {
		l, err := parseFile("f", strings.NewReader(text))
		if err != nil || len(l) != 0 {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	if _, err := FromFile(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := FromFile(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
	if _, err := parseFile("f", strings.NewReader(strings.Repeat("#", maxConfigFile+1))); err == nil || !strings.Contains(err.Error(), "larger than 1MiB") {
		t.Error(err)
	}
}

func TestUnknownEnvironmentVariablesOfSettingsAreErrors(t *testing.T) {
	_, err := FromEnv([]string{"MQD_JOURNL__SIZE=1MiB", "MQD_SERVER=a:1", "MQD_X__Y=1", "HOME=/"})
	want := "environment variable MQD_JOURNL__SIZE: there is no setting \"journl.size\"; did you mean \"journal.size\"?\n" +
		"environment variable MQD_X__Y: there is no setting \"x.y\"; \"mqd config print\" lists all"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestVariablesThatMeanNothingAreErrors(t *testing.T) {
	for variable, want := range map[string]string{
		"MQD_SHARD_COUNT":       "means nothing; did you mean MQD_SHARD__COUNT?",
		"MQD_JOURNAL_SIZE":      "means nothing; did you mean MQD_JOURNAL__SIZE?",
		"MQD_SERVR":             "means nothing; did you mean MQD_SERVER?",
		"MQD_CONF":              "means nothing; did you mean MQD_CONFIG?",
		"MQD_LISTEN":            "means nothing; did you mean MQD_NET__LISTEN?",
		"MQD_MAX_MESSAGE_BYTES": "means nothing; did you mean MQD_TOPIC__MAX_MESSAGE_BYTES?",
		"MQD_MAX_MESAGE_BYTE":   "means nothing; did you mean MQD_TOPIC__MAX_MESSAGE_BYTES?",
		"MQD_WHATEVER":          "means nothing; settings are MQD_SECTION__KEY",
		"MQD_":                  "means nothing",
	} {
		_, err := FromEnv([]string{variable + "=1"})
		if err == nil || !strings.HasPrefix(err.Error(), "environment variable "+variable+" "+want) {
			t.Errorf("%s: %v, want %s", variable, err, want)
		}
	}
	// What Kubernetes sets beside services mqd and mqd-client-0, and names of others.
	links := []string{"MQD_SERVICE_HOST=10.0.0.1", "MQD_SERVICE_PORT=7878", "MQD_SERVICE_PORT_CLIENTS=7878", "MQD_PORT=tcp://10.0.0.1:7878",
		"MQD_PORT_7878_TCP=x", "MQD_PORT_7878_TCP_PROTO=tcp", "MQD_PORT_7878_TCP_PORT=7878", "MQD_PORT_7878_TCP_ADDR=x",
		"MQD_CLIENT_0_SERVICE_HOST=x", "MQD_CLIENT_0_PORT_53_UDP=x", "MQD_CONFIG=f", "MQD_SERVER=a:1", "MQDX=1"}
	if l, err := FromEnv(links); err != nil || len(l) != 0 {
		t.Errorf("%v, %v", l, err)
	}
}

func TestDistanceCountsSingleChanges(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "abc", 0}, {"abc", "", 3}, {"", "ab", 2}, {"abc", "axc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzConfigurationFile looks for files that are read to the end of the program.
func FuzzConfigurationFile(f *testing.F) {
	paths, err := filepath.Glob("testdata/config/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("a: &a {b: *a}")
	f.Add("? [x]\n: y\n")
	f.Add("<<: {journal: {size: 1}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseFile("f", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Errorf("%q: %v names no place", text, err)
			}
			return
		}
		if _, err := Merge(l); err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: %v names no place", text, err)
		}
	})
}

// C9 of the catalogue of cases: what looks like a number stays the text that it is, sizes
// are read or refused by line and column, an unknown key is refused, and the environment
// wins over the file.
func TestC9ValuesAreTakenAsTheyAreWritten(t *testing.T) {
	read := func(text string, more ...Layer) (*Config, error) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "mqd.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := FromFile(path)
		if err != nil {
			return nil, err
		}
		return Merge(append([]Layer{file}, more...)...)
	}
	for _, text := range []string{"4e2abc", "0K1abc", "8m4dwr", "4e2", "0x1f", "1_000", "0777", "12:30:45", "yes", "off"} {
		if c, err := read("data:\n  dir: " + text + "\n"); err != nil || c.DataDir != text {
			t.Errorf("data.dir %s: %+v, %v", text, c, err)
		}
	}
	for _, text := range []string{"4Mb", "1.5GiB", "1e6", "4_096", "0x100000"} {
		_, err := read("cache:\n  size: " + text + "\n")
		if err == nil || !strings.Contains(err.Error(), `mqd.yaml:2:9: cache.size is "`+text+`", expected a size`) {
			t.Errorf("cache.size %s: %v", text, err)
		}
	}
	if _, err := read("cache:\n  sise: 16MiB\n"); err == nil || !strings.Contains(err.Error(), `mqd.yaml:2:3: there is no setting "cache.sise"`) {
		t.Errorf("an unknown key: %v", err)
	}
	env, err := FromEnv([]string{"MQD_CACHE__SIZE=32MiB", "MQD_DATA__DIR=8m4dwr"})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := read("cache:\n  size: 16MiB\ndata:\n  dir: here\n", env); err != nil || c.CacheSize != 32<<20 || c.DataDir != "8m4dwr" {
		t.Errorf("with an environment: %+v, %v", c, err)
	}
}
