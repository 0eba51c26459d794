package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/mqd-broker/mqd/cmd/mqd/generator"
	"github.com/spf13/cobra"
)

func newGenerate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Generate test data, and files that other programs read",
	}
	cmd.AddCommand(newGenerateMessages())
	cmd.AddCommand(generator.New()...)
	return cmd
}

// mix describes generated messages.
type mix struct {
	count, seed uint64
	least, most int // bytes
	mean        float64
}

func newGenerateMessages() *cobra.Command {
	m := mix{}
	cmd := &cobra.Command{
		Use:   "messages",
		Short: "Write random messages, one a line",
		Long: `Write random messages to standard output, one a line, for mqd produce.

The sizes are those of a feed of alerts: a truncated exponential distribution, many
small messages and few large ones, with the mean, least and most bytes given. The
content is random letters and digits, 6 bits of chance in each byte, so that it does
not compress to much less. The same flags give the same bytes.`,
		Example: `  mqd generate messages --count 200000 --seed 1 > messages.txt
  mqd generate messages --count 1000 --min 1 --max 64 --mean 16 | mqd produce orders`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return m.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().Uint64VarP(&m.count, "count", "n", 200_000, "number of `messages`")
	cmd.Flags().Uint64Var(&m.seed, "seed", 1, "seed of the random numbers, a `number`")
	cmd.Flags().IntVar(&m.least, "min", 50, "least `bytes` of a message")
	cmd.Flags().IntVar(&m.most, "max", 512, "most `bytes` of a message")
	cmd.Flags().Float64Var(&m.mean, "mean", 180, "mean `bytes` of a message")
	return cmd
}

// maxGenerated bounds the size of a generated message, in bytes.
const maxGenerated = 16 << 20

// alphabet are 64 characters that stand for themselves in lines, JSON and shells.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// write writes the messages.
func (m mix) write(w io.Writer) error {
	switch {
	case m.least < 1 || m.most < m.least || m.most > maxGenerated:
		return fmt.Errorf("--min %d and --max %d: expected 1 <= min <= max <= %d", m.least, m.most, maxGenerated)
	case m.least < m.most && !(m.mean > float64(m.least) && m.mean < float64(m.most)):
		return fmt.Errorf("--mean %v: expected more than --min %d and less than --max %d", m.mean, m.least, m.most)
	}
	out := bufio.NewWriterSize(w, 256<<10)
	rng := rand.NewPCG(m.seed, 0)
	sizes := newSizes(m)
	line := make([]byte, m.most+1)
	for range m.count {
		n := sizes.next(rng)
		fillText(line[:n], rng)
		line[n] = '\n'
		if _, err := out.Write(line[:n+1]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// fillText fills b with characters of the alphabet, ten of each random number.
func fillText(b []byte, rng *rand.PCG) {
	var bits uint64
	for i := range b {
		if i%10 == 0 {
			bits = rng.Uint64()
		}
		b[i] = alphabet[bits&63]
		bits >>= 6
	}
}

// sizes draws from an exponential distribution with rate a byte that is cut off
// at span and moved up by least. A negative rate makes large sizes the likely
// ones.
type sizes struct {
	least, span int
	rate        float64
}

func newSizes(m mix) sizes {
	s := sizes{least: m.least, span: m.most - m.least}
	if s.span == 0 {
		return s
	}
	// The mean falls as the rate grows: halve the interval until it is small.
	lo, hi := -64.0, 64.0
	for range 200 {
		s.rate = (lo + hi) / 2
		if truncatedMean(s.rate, float64(s.span)) > m.mean-float64(s.least) {
			lo = s.rate
		} else {
			hi = s.rate
		}
	}
	return s
}

// nearUniform is the rate times span below which the distribution is taken for
// uniform; the formulas would divide by nearly nothing.
const nearUniform = 1e-6

// truncatedMean is the mean of an exponential distribution cut off at span.
func truncatedMean(rate, span float64) float64 {
	if math.Abs(rate*span) < nearUniform {
		return span / 2
	}
	return 1/rate - span/math.Expm1(rate*span)
}

// next draws a size.
func (s sizes) next(rng *rand.PCG) int {
	if s.span == 0 {
		return s.least
	}
	u, span := float64(rng.Uint64()>>11)/(1<<53), float64(s.span)
	x := u * span
	if rate := math.Abs(s.rate); rate*span >= nearUniform {
		x = -math.Log1p(u*math.Expm1(-rate*span)) / rate
	}
	if s.rate < 0 {
		x = span - x
	}
	return s.least + min(max(int(math.Round(x)), 0), s.span)
}
