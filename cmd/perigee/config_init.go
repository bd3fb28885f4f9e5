package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"perigee/internal/config"
)

// initConfig writes an example of a configuration file where it will be read, unless there is one already.
func initConfig(env *environment, src config.Sources) error {
	paths := config.Files(src)
	if len(paths) == 0 {
		return errors.New("config init: there is no home directory to put the file in; name one with --config FILE")
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("config init: %s exists already and stays as it is; perigee config show lists what it says", path)
		}
	}
	path := paths[0]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("config init: %s exists already and stays as it is; perigee config show lists what it says", path)
	}
	if err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	_, err = f.Write(config.Example(src))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	env.say("edit the file, then type: perigee config check")
	_, err = fmt.Fprintln(env.stdout, path)
	return err
}
