// Package mcpcmd is perigee mcp: the MCP server on stdio, with the files of the directory in which
// a client starts it.
package mcpcmd

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/mcpserver"
)

// Settings are the configured settings of the command.
type Settings struct {
	Roots   []string // the working directory of the command if empty
	Write   bool
	Private []string // files and directories of perigee that no tool may use

	Backend mcpserver.Backend
	Close   func() // ends the backend
	Version string // of perigee
	Logger  *slog.Logger
}

// Command serves one client until it closes stdin or ctx ends. settings is called after the flags
// were checked.
func Command(ctx context.Context, env *cli.Env, args []string, settings func() (*Settings, error)) error {
	var dirs []string
	env.Flags.Func("root", "", func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	})
	readOnly := env.Flags.Bool("read-only", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	s, err := settings()
	if err != nil {
		return err
	}
	defer s.Close()
	roots, err := s.roots(dirs)
	if err != nil {
		return err
	}
	write := s.Write && !*readOnly
	files, err := filetool.New(filetool.Options{Roots: roots, Write: write, Forbidden: s.Private})
	if err != nil {
		return cli.Usagef("mcp: %v", err)
	}
	defer func() { _ = files.Close() }()
	server := mcpserver.New(mcpserver.Options{
		Backend: s.Backend, Version: s.Version, Logger: s.Logger,
		Files:    func(mcpserver.Caller) *filetool.Tools { return files },
		ReadOnly: func() bool { return !write },
	})
	defer func() { _ = server.Close() }()
	if err := server.ServeStdio(ctx, env.Stdin, env.Stdout); err != nil && ctx.Err() == nil {
		return err
	}
	return nil // a signal ends it like the client does
}

// roots returns the directories of the file tools: the directories of --root, which have to be
// inside of configured ones.
func (s *Settings) roots(dirs []string) ([]string, error) {
	switch {
	case len(dirs) == 0 && len(s.Roots) > 0:
		return s.Roots, nil
	case len(dirs) == 0:
		dir, err := os.Getwd()
		return []string{dir}, err
	}
	if len(s.Roots) == 0 {
		return dirs, nil
	}
	configured, err := filetool.New(filetool.Options{Roots: s.Roots})
	if err != nil {
		return nil, cli.Usagef("mcp: %v", err)
	}
	defer func() { _ = configured.Close() }()
	for _, dir := range dirs {
		whole, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		_, _, err = configured.Find(whole)
		if err != nil && perigee.AsError(err).Class == perigee.ClassForbidden {
			return nil, cli.Usagef("mcp: --root %s is outside of mcp.roots (%s)", dir, strings.Join(s.Roots, ", "))
		}
	}
	return dirs, nil
}
