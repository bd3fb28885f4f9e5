package roster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"perigee"
)

// isFile returns an error for a path that is not a regular file, before it is opened: reading a
// pipe without a writer would block for ever.
func isFile(path string) error {
	info, err := os.Stat(path)
	bad := func(format string, args ...any) *perigee.Error {
		return perigee.Errorf(perigee.ClassInvalid, "import %s: %s", path, fmt.Sprintf(format, args...))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return bad("there is no such file").WithHint("check the path")
	case errors.Is(err, fs.ErrPermission):
		return bad("permission denied").WithHint("ls -l shows who may read it")
	case err != nil:
		return bad("%v", err).WithHint("check the path")
	case info.IsDir():
		return bad("it is a directory").WithHint("name the file in it: an export, antigravity-accounts.json or state.vscdb")
	case !info.Mode().IsRegular():
		return bad("it is not a file but a %s", kindOf(info.Mode())).
			WithHint("write the accounts to a file that only you can read, and import that")
	}
	return nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}
