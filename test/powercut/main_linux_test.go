package powercut

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/powercut/fusedisk"
	"github.com/mqd-broker/mqd/test/rig"
)

var (
	imagesFlag = flag.Int("powercut.images", 12, "how many images are taken and examined")
	seedFlag   = flag.Uint64("powercut.seed", 0, "what chooses moments, sectors, sizes; 0 is the test's own")
	anyFlag    = flag.Bool("powercut.any", false, "another seed each time, to hunt")
	logFlag    = flag.Bool("powercut.log", false, "show what brokers log")
)

func TestMain(m *testing.M) {
	os.Exit(fusedisk.Isolate(func() int { return rig.Main(m) }))
}

// patience bounds every wait for something that has to happen.
const patience = 60 * time.Second

// newSeed is the seed of a test, which it prints.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rig.Seed(t, *seedFlag, *anyFlag)
	t.Logf("seed %d (-powercut.seed)", seed)
	return seed
}

// upTo is a random time below d.
func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
