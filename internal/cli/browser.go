package cli

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// OpenBrowser opens a page in the default browser, and reports whether it tried.
func OpenBrowser(ctx context.Context, url string) bool {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command = []string{"open", url}
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return false
		}
	}
	// The browser outlives the command, and its output is discarded.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }()
	return true
}
