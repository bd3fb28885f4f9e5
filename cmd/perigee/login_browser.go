package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
)

// openBrowser shows a page to the person at this machine, and says whether it tried.
func openBrowser(ctx context.Context, url string) bool {
	var name string
	var args []string
	switch runtime.GOOS {
	case "darwin":
		name, args = "open", []string{url}
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return false // nobody would see it
		}
		name, args = "xdg-open", []string{url}
	}
	// The browser outlives the command, and what it says belongs on no terminal.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	if cmd.Start() != nil {
		return false
	}
	go func() { _ = cmd.Wait() }()
	return true
}
