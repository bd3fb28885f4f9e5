package doctor

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"

	"perigee/internal/lib/atomicfile"
	"perigee/internal/lib/terminal"
	"perigee/internal/store/datadir"
)

// The free space that perigee needs besides the configured limits.
const (
	leastFree  = 32 << 20 // below it, calls can soon not be recorded
	spareSpace = 64 << 20 // for the database and its log to grow
)

// DiskSpace checks the free space for the data directory against the space that traces may still
// take. free reads the disk.
func DiskSpace(ctx context.Context, dir string, keep int64, free func(dir string) (atomicfile.Disk, bool)) Result {
	existing := datadir.Existing(dir)
	disk, known := free(existing)
	if !known {
		return ok(NameDisk, "the free space of %s is not known on this system", existing)
	}
	used := sizeOf(ctx, filepath.Join(dir, "traces"))
	need := spareSpace + max(0, keep-used)
	if info, err := os.Stat(filepath.Join(dir, datadir.StoreName)); err == nil {
		need += info.Size() / 10
	}
	fix := "du -xh -d 2 " + commandLine(existing) + " | sort -h | tail"
	switch {
	case disk.Free < leastFree:
		return look(fail(NameDisk, fix, "%s free for %s; below %s, calls, traces and accounts can no longer be stored",
			terminal.Size(disk.Free), dir, terminal.Size(leastFree)))
	case disk.HasLimits && disk.Files < 1000:
		return look(fail(NameDisk, fix, "only %d more files can be created on the disk of %s", disk.Files, dir))
	case disk.Free < need:
		return look(warn(NameDisk, fix, "%s free for %s; traces (traces.keep) and the database may need %s more",
			terminal.Size(disk.Free), dir, terminal.Size(need)))
	}
	return ok(NameDisk, "%s free", terminal.Size(disk.Free))
}

// sizeOf adds up the files below a directory, as far as ctx allows.
func sizeOf(ctx context.Context, dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || ctx.Err() != nil {
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}
