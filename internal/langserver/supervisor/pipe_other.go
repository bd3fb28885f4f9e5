//go:build !unix

package supervisor

import (
	"errors"

	"perigee/internal/lib/procgroup"
)

// A parentPipe is a named pipe here, which is not supported yet.
type parentPipe struct{}

func listenParentPipe(*procgroup.User) (*parentPipe, error) {
	return nil, errors.New("not supported on this system")
}

func (*parentPipe) path() string { return "" }

func (*parentPipe) close() {}
