package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"perigee"
	"perigee/internal/lib/lazyregexp"
)

// Bounds of the copy that is kept of a database before it is migrated.
const (
	maxCopied = 512 << 20 // bytes; a larger database takes long to copy, and its owner has backups
	spareCopy = 64 << 20  // bytes that are left on the disk
)

// CopyName returns the copy that is kept of a file before it is migrated to a version.
func CopyName(path string, version int) string { return path + ".before-" + strconv.Itoa(version) }

// backUp makes a copy of the file, which the previous perigee can continue to use. Only the last
// copy is kept. If required, the previous perigee cannot use the database after the migrations: then
// an error is returned if there is no copy. Otherwise the database is migrated all the same, since
// each step is a transaction, and a large one is not copied.
func (f *sqliteFile) backUp(ctx context.Context, version int, required bool, logger *slog.Logger) error {
	name := CopyName(f.path, version)
	info, err := os.Stat(f.path)
	if err == nil && !required && info.Size() > maxCopied {
		logger.InfoContext(ctx, "no copy of the database was made before its schema is changed: it is large", "database", f.path, "bytes", info.Size())
		return nil
	}
	for _, left := range unfinished(f.path) {
		_ = os.Remove(left) // it takes the space for this copy
	}
	if err == nil {
		if err = f.wantSpace("a copy of", 2*info.Size()+spareCopy); err == nil {
			err = f.copyTo(ctx, name)
		}
	}
	switch {
	case err != nil && required:
		e := perigee.Errorf(perigee.ClassUnavailable,
			"the schema has to be changed so that older versions of perigee cannot use the database, and no copy of %s could be made before that: %w", f.path, err)
		return e.WithHint("free space on the disk, or mend what the error names, and start again; the database is as it was")
	case err != nil:
		logger.WarnContext(ctx, "no copy of the database was made before its schema is changed", "database", f.path, "error", err)
		return nil
	}
	logger.InfoContext(ctx, "copied the database before its schema is changed", "copy", name)
	for _, path := range Copies(f.path) {
		if path != name {
			_ = os.Remove(path)
		}
	}
	return nil
}

// Copies returns the copies of a file that were made before it was migrated. Files with other names
// belong to the user.
func Copies(path string) []string {
	list, _ := filepath.Glob(path + ".before-*") // a pattern in the path finds nothing
	return slices.DeleteFunc(list, func(name string) bool {
		_, err := strconv.Atoi(strings.TrimPrefix(name, path+".before-"))
		return err != nil
	})
}

var unfinishedCopy = lazyregexp.New(`\.before-\d+\.\d+(-journal)?$`)

// unfinished returns the files of copies that were not finished, because the process was killed.
func unfinished(path string) []string {
	list, _ := filepath.Glob(path + ".before-*")
	return slices.DeleteFunc(list, func(name string) bool {
		return !unfinishedCopy().MatchString(strings.TrimPrefix(name, path))
	})
}

// copyTo writes a copy for the owner only; after an error there is no copy.
func (f *sqliteFile) copyTo(ctx context.Context, name string) error {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // 0600
	if err != nil {
		return err
	}
	temporary := file.Name()
	err = file.Close()
	if err == nil {
		_, err = f.db.Write.ExecContext(ctx, "VACUUM INTO ?", temporary) // an empty file may exist
	}
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}
