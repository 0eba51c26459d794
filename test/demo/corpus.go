package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
)

// Sizes of alerts in bytes: a truncated exponential distribution.
const (
	leastSize = 50
	meanSize  = 180
	mostSize  = 512
)

// lines are the lines of a file, without their newlines. The last one may have
// none.
func lines(data []byte) [][]byte {
	if len(data) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// readLines reads a file of lines.
func readLines(path string) (messages [][]byte, size int64, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	if messages = lines(data); len(messages) == 0 {
		return nil, 0, fmt.Errorf("%s is empty", path)
	}
	return messages, int64(len(data)), nil
}

// noise makes messages of random bytes, which no two messages share.
func noise(n int, seed uint64) [][]byte {
	rng := rand.New(rand.NewPCG(seed, 0))
	var key [32]byte
	for i := range key {
		key[i] = byte(rng.Uint32())
	}
	fill := rand.NewChaCha8(key)
	messages := make([][]byte, n)
	rate := rateFor(meanSize-leastSize, mostSize-leastSize)
	for i := range messages {
		m := make([]byte, leastSize+int(truncated(rng.Float64(), rate, mostSize-leastSize)))
		_, _ = fill.Read(m) // never fails
		messages[i] = m
	}
	return messages
}

// truncated is the value at u, 0 to 1, of an exponential distribution with rate
// that is cut off at span.
func truncated(u, rate, span float64) float64 {
	return math.Round(-math.Log1p(u*math.Expm1(-rate*span)) / rate)
}

// rateFor is the rate whose distribution, cut off at span, has the mean.
func rateFor(mean, span float64) float64 {
	lo, hi := 1e-6, 1.0
	for range 100 {
		rate := (lo + hi) / 2
		if 1/rate-span/math.Expm1(rate*span) > mean {
			lo = rate
		} else {
			hi = rate
		}
	}
	return lo
}

// writeJSON writes messages as JSON lines that mqd produce takes.
func writeJSON(path string, messages [][]byte) error {
	var out bytes.Buffer
	for _, m := range messages {
		out.WriteString(`{"value_base64":"`)
		out.Write(base64.StdEncoding.AppendEncode(out.AvailableBuffer(), m))
		out.WriteString("\"}\n")
	}
	return os.WriteFile(path, out.Bytes(), 0o600)
}
