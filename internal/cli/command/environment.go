package command

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/store/config"
	"perigee/internal/store/datadir"
)

// RunsWith reports whether a running daemon has the file of a configuration, or none if there is none.
func RunsWith(loaded *config.Loaded, status perigee.DaemonStatus) bool {
	path := loaded.Path
	if whole, err := filepath.Abs(path); path != "" && err == nil {
		path = whole
	}
	return path == status.Configuration
}

// StaleEnvironment returns a sentence if the running daemon was started without variables that
// secrets of the configuration are read from in this shell, or with other values of them. It is
// empty if it was not, or if that is unknown; err is why a daemon that can compare them did not. A
// daemon with another configuration file may need other variables.
func StaleEnvironment(ctx context.Context, loaded *config.Loaded, status perigee.DaemonStatus) (stale string, err error) {
	if !RunsWith(loaded, status) || len(loaded.Variables) == 0 {
		return "", nil
	}
	missing, different, err := daemon.CompareVariables(ctx, loaded.Config, loaded.Variables)
	if e := perigee.AsError(err); e != nil && e.Class == perigee.ClassNotFound {
		return "", nil // it is of a version without the comparison
	}
	if err != nil {
		return "", err
	}
	who := "the running daemon"
	if pid := datadir.Holder(loaded.Config.DataDir); pid != 0 {
		who += fmt.Sprintf(" (process %d)", pid)
	}
	switch {
	case len(missing) > 0:
		return fmt.Sprintf("%s was started without %s", who, strings.Join(missing, ", ")), nil
	case len(different) > 0:
		return fmt.Sprintf("%s was started with another value of %s than this shell has", who, strings.Join(different, ", ")), nil
	}
	return "", nil
}
