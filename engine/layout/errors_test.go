package layout

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

func TestOnlyShortagesMayPass(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EMFILE: true, syscall.ENOMEM: true,
		syscall.EIO: false, syscall.EROFS: false, syscall.EACCES: false, syscall.ENOENT: false,
		aio.ErrShort: false, errors.New("else"): false,
	} {
		wrapped := fmt.Errorf("a segment: %w", &aio.Error{Op: "open", What: "f", Off: -1, Err: err})
		if MayPass(err) != want || MayPass(wrapped) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
