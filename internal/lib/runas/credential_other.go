//go:build !unix

package runas

import (
	"errors"
	"os/exec"
)

func (u *User) setCredential(cmd *exec.Cmd) {
	cmd.Err = errors.New("programs of other users cannot be started on this system")
}
