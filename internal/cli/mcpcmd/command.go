// Package mcpcmd is perigee mcp: the MCP server on stdio, with the files of the directory in which
// a client starts it.
package mcpcmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/lib/filetool"
	"perigee/internal/mcp/mcpserver"
)

// Command serves one client until it closes stdin or ctx ends. open is called after the flags were
// checked; Command closes the Owner that it returns.
func Command(ctx context.Context, env *cli.Env, args []string, open func() (*Owner, error)) error {
	var dirs []string
	env.Flags.Func("root", "", func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	})
	readOnly := env.Flags.Bool("read-only", false, "")
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	o, err := open()
	if err != nil {
		return err
	}
	defer o.Close()
	settings := o.opts.Loaded.Config.MCP
	roots, err := chooseRoots(mcpserver.Existing(settings.Roots), dirs)
	if err != nil {
		return err
	}
	write := settings.Write && !*readOnly
	files, err := filetool.New(filetool.Options{Roots: roots, Write: write, Forbidden: mcpserver.PrivateFiles(o.opts.Loaded)})
	if err != nil {
		return cli.Usagef("mcp: %v", err)
	}
	defer func() { _ = files.Close() }()
	server := mcpserver.New(mcpserver.Options{
		Backend: o, Version: o.opts.Version, Logger: o.opts.Logger,
		Files:    func(mcpserver.Caller) *filetool.Tools { return files },
		ReadOnly: func() bool { return !write },
	})
	defer func() { _ = server.Close() }()
	if err := server.ServeStdio(ctx, env.Stdin, env.Stdout); err != nil && ctx.Err() == nil {
		return err
	}
	return nil // a signal ends it like the client does
}

// chooseRoots returns the directories of the file tools: dirs, the values of --root, which have to
// be inside of the configured roots. Without --root these are the roots, or else the working
// directory.
func chooseRoots(roots, dirs []string) ([]string, error) {
	switch {
	case len(dirs) == 0 && len(roots) > 0:
		return roots, nil
	case len(dirs) == 0:
		dir, err := os.Getwd()
		return []string{dir}, err
	case len(roots) == 0:
		return dirs, nil
	}
	configured, err := filetool.New(filetool.Options{Roots: roots})
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
			return nil, cli.Usagef("mcp: --root %s is outside of mcp.roots (%s)", dir, strings.Join(roots, ", "))
		}
	}
	return dirs, nil
}
