//go:build !unix

package truststore

import (
	"os"
	"os/exec"
)

func detach(*exec.Cmd, *os.File) {}
