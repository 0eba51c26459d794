package classic

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden file")

// stable is what is kept of a group with a static and a dynamic member.
func stable(t testing.TB) (r *rig, kept []byte) {
	r = newRig(t, Limits{})
	r.do("join a instance=one protocols=sticky,range")
	r.do("join b")
	r.do("join a instance=one protocols=sticky,range")
	r.do("sync b 2")
	r.do("sync a 2 a=1,2 b=3")
	r.s.Keep(func(_ string, b []byte) { kept = append([]byte(nil), b...) })
	return r, kept
}

func TestTheFormOfWhatIsKept(t *testing.T) {
	_, kept := stable(t)
	path := filepath.Join("testdata", "golden", "kept-v1.bin")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, kept, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != string(want) {
		t.Errorf("kept is %x, expected %x", kept, want)
	}
}

// Members that know the generation that was kept go on in it.
func TestMembersGoOnBehindAStart(t *testing.T) {
	r, kept := stable(t)
	r.s = New(Limits{})
	if err := r.s.Restore(r.now, "g", kept); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ step, want string }{
		{"beat b 2", "b.beat=OK"},
		{"sync b 2", "b.sync=OK:3"},
		{"commit a 2 instance=one", "a.commit=OK"},
		{"beat b 3", "b.beat=IllegalGeneration"},
		{"wait 9s", ""},
		{"beat b 2", "b.beat=OK"},
		{"join c instance=one protocols=sticky,range", "c.join=OK:2:range:a"},
		{"sync c 2", "c.sync=OK:1,2"},
		{"beat a 2 instance=one", "a.beat=Fenced"},
		{"wait 9s", ""},
		{"beat c 2 instance=one", "c.beat=OK"},
		{"wait 2s", ""},
		{"beat c 2 instance=one", "c.beat=Rebalancing"},
		{"join c instance=one", "c.join=OK:3:range:c[c:c]"},
	} {
		if got := r.do(c.step); got != c.want {
			t.Fatalf("%s: %s, expected %s", c.step, got, c.want)
		}
	}
}

func FuzzRestore(f *testing.F) {
	_, kept := stable(f)
	f.Add(kept)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Limits{})
		if err := s.Restore(0, "g", b); err != nil {
			if !errors.Is(err, ErrDamaged) || s.Has("g") || s.bytes != 0 {
				t.Fatalf("an error of no kind, or a group: %v", err)
			}
			return
		}
		s.KeepAll()
		s.Keep(func(_ string, again []byte) {
			if string(again) != string(b) {
				t.Fatalf("%x is kept as %x", b, again)
			}
		})
	})
}
