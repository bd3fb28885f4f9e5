package mcpserver

import (
	"log/slog"
	"os"
	"slices"
	"sync"

	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/bridge"
	"perigee/internal/store/config"
)

// Files returns a function that returns the file tools of callers over HTTP, by the configuration
// that loaded returns, or nil for a caller that has none. Tools of an earlier configuration stay
// valid for the calls that use them.
func Files(loaded func() *config.Loaded, logger *slog.Logger) func(Caller) *filetool.Tools {
	var mu sync.Mutex
	var built filetool.Options
	var tools *filetool.Tools
	return func(c Caller) *filetool.Tools {
		now := loaded()
		m := now.Config.MCP
		if len(m.Roots) == 0 || c.Key == "" && !c.Trusted {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		options := filetool.Options{Roots: Existing(m.Roots), Write: m.Write && m.HTTPWrite, Forbidden: PrivateFiles(now)}
		if tools != nil && slices.Equal(built.Roots, options.Roots) && built.Write == options.Write && slices.Equal(built.Forbidden, options.Forbidden) {
			return tools
		}
		opened, err := filetool.New(options)
		if err != nil {
			logger.Warn("the file tools of /mcp cannot be used", "error", err)
			return nil
		}
		built, tools = options, opened
		return tools
	}
}

// Existing returns the configured roots that are directories: a missing one, for example on a
// drive that is not mounted, leaves the other ones usable. If there is none, it returns all of
// them.
func Existing(roots []string) []string {
	found := slices.DeleteFunc(slices.Clone(roots), func(dir string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir()
	})
	if len(found) == 0 {
		return roots
	}
	return found
}

// PrivateFiles returns the files and directories of perigee that no tool may use: its data, its
// configuration with the files of secrets that it names, and the announcements of editor windows.
func PrivateFiles(loaded *config.Loaded) []string {
	list := append(loaded.Files(), loaded.Config.DataDir, loaded.Path, loaded.Config.TLS.Key)
	if dir, err := bridge.Dir(); err == nil {
		list = append(list, dir)
	}
	return slices.DeleteFunc(list, func(path string) bool { return path == "" })
}
