package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"perigee/internal/mcp/bridge"
)

// Bridge checks the editor windows that have announced themselves in a directory. With offline it
// connects to none.
func Bridge(ctx context.Context, dir, version string, offline bool) Result {
	if offline {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return warn(NameBridge, commandLine("ls", "-ld", dir), "%v", err)
		}
		return ok(NameBridge, "%d announcements of editor windows; not asked because of --offline", len(entries))
	}
	rows, problems, err := bridge.List(ctx, dir, version)
	if err != nil {
		return warn(NameBridge, "perigee bridge list", "%v", err)
	}
	var results []Result
	for _, p := range problems {
		results = append(results, warn(NameBridge, commandLine("rm", p.Path), "%s", p))
	}
	var usable []string
	for _, row := range rows {
		window := fmt.Sprintf("%s %s (process %d)", row.IDE, row.Version, row.PID)
		file := filepath.Join(dir, fmt.Sprintf("%d.json", row.PID))
		switch row.State {
		case bridge.Ready, bridge.Busy:
			usable = append(usable, window)
		case bridge.Incompatible:
			results = append(results, warn(NameBridge, "code --install-extension perigee.vsix --force",
				"the extension in %s is of another version", window))
		default:
			results = append(results, warn(NameBridge, commandLine("rm", file), "%s is announced and %s", window, row.State))
		}
	}
	switch {
	case len(results) > 0:
		return merge(NameBridge, results)
	case len(usable) == 0:
		return ok(NameBridge, "no editor window is announced in %s", dir)
	}
	return ok(NameBridge, "%s", strings.Join(usable, ", "))
}
