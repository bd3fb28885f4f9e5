package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The sections of the README that are written by this program, each by its own kind of run.
const (
	measuredSection = "measured"
	peersSection    = "peers"
)

// marks are the lines before and after a section.
func marks(section string) (begin, end string) {
	return "<!-- " + section + ": begin -->\n", "<!-- " + section + ": end -->\n"
}

// writeReadme puts a report into a section of the README beside this program's source.
func writeReadme(ctx context.Context, section, text string) error {
	dir, err := sourceDir(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "README.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := replaceSection(string(old), section, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(renewed), 0o644)
}

// replaceSection returns readme with another report between the marks of a section.
func replaceSection(readme, section, text string) (string, error) {
	beginMark, endMark := marks(section)
	before, rest, ok := strings.Cut(readme, beginMark)
	if !ok {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(beginMark))
	}
	_, after, ok := strings.Cut(rest, endMark)
	if !ok {
		return "", fmt.Errorf("no line %q after the first mark", strings.TrimSpace(endMark))
	}
	return before + beginMark + "\n" + strings.TrimSpace(text) + "\n\n" + endMark + after, nil
}
