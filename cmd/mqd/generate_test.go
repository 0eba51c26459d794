package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

// generated are the lines of a mix.
func generated(t *testing.T, m mix) []string {
	t.Helper()
	var out bytes.Buffer
	if err := m.write(&out); err != nil {
		t.Fatal(err)
	}
	text, ended := strings.CutSuffix(out.String(), "\n")
	if !ended && m.count > 0 {
		t.Fatal("the last line does not end")
	}
	return strings.Split(text, "\n")
}

func TestGeneratedMessagesHaveTheSizesAskedFor(t *testing.T) {
	for name, m := range map[string]mix{
		"alerts":       {count: 20_000, seed: 1, least: 50, most: 512, mean: 180},
		"mostly small": {count: 20_000, seed: 2, least: 1, most: 4096, mean: 16},
		"mostly large": {count: 20_000, seed: 3, least: 100, most: 2000, mean: 1900},
		"uniform":      {count: 20_000, seed: 4, least: 10, most: 110, mean: 60},
	} {
		lines := generated(t, m)
		if len(lines) != int(m.count) {
			t.Fatalf("%s: %d lines", name, len(lines))
		}
		sum, squares := 0.0, 0.0
		for _, line := range lines {
			n := float64(len(line))
			if len(line) < m.least || len(line) > m.most || strings.Trim(line, alphabet) != "" {
				t.Fatalf("%s: %q", name, line)
			}
			sum += n
			squares += n * n
		}
		mean := sum / float64(m.count)
		deviation := math.Sqrt(squares/float64(m.count) - mean*mean)
		// Five standard errors, and half a byte for rounding at the ends.
		if off := math.Abs(mean - m.mean); off > 5*deviation/math.Sqrt(float64(m.count))+0.5 {
			t.Errorf("%s: mean %.2f, want %.2f", name, mean, m.mean)
		}
	}
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	sum := func(seed uint64) string {
		var out bytes.Buffer
		if err := (mix{count: 1000, seed: seed, least: 50, most: 512, mean: 180}).write(&out); err != nil {
			t.Fatal(err)
		}
		h := sha256.Sum256(out.Bytes())
		return hex.EncodeToString(h[:])
	}
	if sum(1) != sum(1) || sum(1) == sum(2) {
		t.Error("bytes do not follow the seed")
	}
}

func TestSizesThatCannotBeAreRefused(t *testing.T) {
	for _, m := range []mix{
		{least: 0, most: 10, mean: 5}, {least: 10, most: 9, mean: 10}, {least: 1, most: 10, mean: 1}, {least: 1, most: 10, mean: 10},
		{least: 1, most: 10, mean: math.NaN()}, {least: 1, most: maxGenerated + 1, mean: 10},
	} {
		if err := m.write(&bytes.Buffer{}); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
	if lines := generated(t, mix{count: 3, least: 7, most: 7}); len(lines) != 3 || len(lines[0]) != 7 {
		t.Errorf("of one size only: %q", lines)
	}
}
