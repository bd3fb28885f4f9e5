package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/lazyregexp"
)

// Bounds of the copy that is kept of a database before it is migrated.
const (
	maxCopied = 512 << 20 // bytes; a larger database takes long to copy, and its owner has backups
	spareCopy = 64 << 20  // bytes that are left on the disk
)

// upgradePatience is how long a process waits for another one that copies and migrates the same
// file.
const upgradePatience = 2 * time.Minute

// lockUpgrade makes sure that one process at a time copies and migrates the file. The lock ends with
// unlock or with the process. Its file stays: another process may be waiting for it.
func (f *sqliteFile) lockUpgrade(ctx context.Context) (unlock func(), err error) {
	lock, err := atomicfile.Lock(ctx, f.path+".lock", upgradePatience)
	if errors.Is(err, atomicfile.ErrHeld) {
		return nil, perigee.Errorf(perigee.ClassUnavailable, "another process has been changing the schema of %s for %v", f.path, upgradePatience).
			WithHint("wait until it is done, or end it, and try again")
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// CopyName returns the copy that is kept of a file before the migration to a version. The copy has
// the schema of the version before, so copies of different schemas have different names.
func CopyName(path string, version int) string { return path + ".before-" + strconv.Itoa(version) }

// backUp makes a copy of the file, which has a schema of this version and which the previous perigee
// can continue to use. The caller holds the lock of lockUpgrade. If required, the previous perigee
// cannot use the database after the migrations: then an error is returned if there is no copy.
// Otherwise the database is migrated all the same, since each step is a transaction, and a large one
// is not copied.
//
// A copy with a schema that the database excludes is never replaced or removed: it is the way back
// for each perigee that can use it, also when a later step has failed, and until the user removes it.
// Any other copy is removed when a new one is made, which the same versions can use.
func (f *sqliteFile) backUp(ctx context.Context, version int, required bool, logger *slog.Logger) error {
	name := CopyName(f.path, version+1)
	info, err := os.Stat(f.path)
	if err == nil && !required && info.Size() > maxCopied {
		logger.InfoContext(ctx, "no copy of the database was made before its schema is changed: it is large", "database", f.path, "bytes", info.Size())
		return nil
	}
	earlier, unfinished := copies(f.path)
	for _, left := range unfinished {
		_ = os.Remove(left) // it takes the space for this copy
	}
	replaced := slices.DeleteFunc(slices.Clone(earlier), func(path string) bool { return f.excludes(ctx, version, path) })
	if err == nil && slices.Contains(earlier, name) && !slices.Contains(replaced, name) {
		err = fmt.Errorf("%s has another schema, or cannot be read; move it to another directory", name)
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
	for _, path := range replaced {
		if path != name {
			_ = os.Remove(path)
		}
	}
	return nil
}

// excludes reports whether the database, which has a schema of this version, excludes the perigee
// of the schema that a copy has. It is true also if that cannot be determined.
func (f *sqliteFile) excludes(ctx context.Context, version int, path string) bool {
	pool, err := openPool(path, immutable, 1)
	if err != nil {
		return true
	}
	defer func() { _ = pool.Close() }()
	copied, err := schemaVersion(ctx, pool)
	if err != nil || copied >= version {
		return err != nil
	}
	var lowest int
	err = f.db.Read.QueryRowContext(ctx, selectCompatible).Scan(&lowest)
	return err != nil || copied < lowest
}

// Copies returns the copies of a file that were made before it was migrated, those with the oldest
// schema first. Files with other names belong to the user.
func Copies(path string) []string {
	finished, _ := copies(path)
	return finished
}

var (
	finishedCopy   = lazyregexp.New(`^\d+$`)
	unfinishedCopy = lazyregexp.New(`^\d+\.\d+(-journal)?$`)
)

// copies returns the copies of a file, and the files of copies that were not finished because the
// process was killed.
func copies(path string) (finished, unfinished []string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // a directory that cannot be read has none to remove
	for _, entry := range entries {
		version, found := strings.CutPrefix(entry.Name(), filepath.Base(path)+".before-")
		switch name := path + ".before-" + version; {
		case !found || !entry.Type().IsRegular():
		case finishedCopy().MatchString(version):
			finished = append(finished, name)
		case unfinishedCopy().MatchString(version):
			unfinished = append(unfinished, name)
		}
	}
	slices.SortFunc(finished, func(a, b string) int { // by number
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return finished, unfinished
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
