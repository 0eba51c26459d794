package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// dup is another descriptor of an open file, for whoever takes it.
func dup(f *os.File) (int, error) { return syscall.Dup(int(f.Fd())) }

func TestWhereTheAddressCannotGoIsSaidBeforeTheStart(t *testing.T) {
	clearEnv(t)
	data := filepath.Join(t.TempDir(), "data")
	unwritable, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer unwritable.Close()
	// Held by the broker from now on, so it is a number that no other file gets.
	fd, err := dup(unwritable)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--ready-file", filepath.Join(data, "none", "addr"), "no such file or directory"},
		{"--ready-file", t.TempDir(), "is a directory"},
		{"--ready-fd", "-7", "--ready-fd is -7"},
		{"--ready-fd", strconv.Itoa(fd), "not open for writing"},
		{"--ready-fd", "987654", "not open for writing"},
	} {
		_, errs, status := execute("serve", "--data-dir", data, "--listen", "127.0.0.1:0", c.flag, c.value)
		if status != 1 || !strings.HasPrefix(errs, "mqd: "+c.flag) || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s %s: status %d, %s", c.flag, c.value, status, errs)
		}
		if _, err := os.Stat(data); err == nil {
			t.Errorf("%s %s: the data directory was made", c.flag, c.value)
		}
	}
}

func TestTheAddressIsToldWholeOrNotAtAll(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	fd, err := dup(write)
	if err != nil {
		t.Fatal(err)
	}
	write.Close()
	dir := t.TempDir()
	r := readiness{path: filepath.Join(dir, "addr"), fd: fd}
	if err := r.prepare(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.path); err == nil {
		t.Error("the file is there before there is an address")
	}
	if err := r.tell("127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	r.forget()
	line := make([]byte, 64)
	n, err := read.Read(line)
	text, fileErr := os.ReadFile(r.path)
	if string(line[:n]) != "127.0.0.1:1\n" || string(text) != "127.0.0.1:1\n" || err != nil || fileErr != nil {
		t.Errorf("told %q (%v) and %q (%v)", line[:n], err, text, fileErr)
	}
	again := readiness{path: filepath.Join(dir, "other"), fd: -1}
	if err := again.prepare(); err != nil {
		t.Fatal(err)
	}
	again.forget()
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("%v, %v: a start that failed leaves something", names, err)
	}
}
