package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const terminalInstall = "terminal"

// installTerminal makes sure that there is a terminal emulator, tmux, and the agent that is used in
// it.
func installTerminal(ctx context.Context) (fresh bool, err error) {
	if _, err := exec.LookPath("tmux"); err != nil {
		if err := installDebian(ctx, "tmux"); err != nil {
			return false, err
		}
	}
	return installPackages(ctx, "claude")
}

// inTerminal is Claude Code in a terminal, with README.md pasted into a shell.
func inTerminal() client {
	claude := documentedClients()[0]
	return client{
		name: "docs claude code terminal", version: pinnedPackage("claude", claude.library), install: terminalInstall, scenarios: []string{asPrinted},
		run: func(ctx context.Context, s *stage, c client, r *report) { r.add(c, asPrinted, claude.paste(ctx, s)) },
	}
}

// A dialog is what a program asks when it is started for the first time, and the keys that answer
// it.
type dialog struct {
	shows string
	keys  []string
}

var claudeDialogs = []dialog{
	{"Choose the text style", []string{"Enter"}},
	{"Press Enter to continue", []string{"Enter"}},
	{"❯ No, exit", []string{"Down"}},
	{"❯ Yes, I trust this folder", []string{"Enter"}},
	{"shift+tab to cycle", []string{"hello", "Enter"}},
}

// paste pastes the commands for a terminal into a shell, answers what the program asks, says hello
// and waits for the answer.
func (d documented) paste(ctx context.Context, s *stage) error {
	printed, err := d.instructions()
	if err != nil {
		return err
	}
	if err := s.servePrinted(ctx); err != nil {
		return err
	}
	home, err := os.MkdirTemp(s.dir, "terminal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if err := printed.write(home); err != nil {
		return err
	}
	path, err := d.path(home)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	t := terminal{socket: filepath.Join(home, "tmux"), env: []string{"HOME=" + home, "PATH=" + path, "TERM=xterm-256color", "LANG=C.UTF-8"}}
	if _, err := t.tmux(ctx, "new-session", "-d", "-x", "120", "-y", "50", "-c", filepath.Join(home, "work"), "bash --norc --noprofile"); err != nil {
		return err
	}
	defer t.tmux(context.WithoutCancel(ctx), "kill-server")
	if _, err := t.tmux(ctx, "set-buffer", printed.shell); err != nil {
		return err
	}
	if _, err := t.tmux(ctx, "paste-buffer"); err != nil {
		return err
	}
	return t.converse(ctx, claudeDialogs)
}

// A terminal is a tmux of our own, with one window.
type terminal struct {
	socket string
	env    []string
}

func (t terminal) tmux(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-S", t.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = t.env
	output, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, firstLines(string(output), 3))
	}
	return string(output), nil
}

// converse answers each dialog once, when it shows, until the model's answer is there.
func (t terminal) converse(ctx context.Context, dialogs []dialog) error {
	answered := map[string]bool{}
	for {
		screen, err := t.tmux(ctx, "capture-pane", "-p")
		if err != nil {
			return err
		}
		if simulatedHello.MatchString(screen) {
			return nil
		}
		for _, d := range dialogs {
			if answered[d.shows] || !strings.Contains(screen, d.shows) {
				continue
			}
			answered[d.shows] = true
			for _, key := range d.keys {
				if _, err := t.tmux(ctx, "send-keys", key); err != nil {
					return err
				}
				if err := pause(ctx, 500*time.Millisecond); err != nil { // a key that comes with further ones counts as pasted
					return err
				}
			}
			break
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return errors.New("no answer in the terminal, which shows:\n" + strings.TrimSpace(screen))
		}
	}
}
