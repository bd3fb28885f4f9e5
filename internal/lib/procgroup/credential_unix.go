//go:build unix

package procgroup

import (
	"os/exec"
	"syscall"
)

func (u *User) setCredential(cmd *exec.Cmd) {
	attributes(cmd).Credential = &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID)}
}
