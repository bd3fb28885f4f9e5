package atomicfile

import (
	"path/filepath"
	"runtime"
	"testing"
)

func TestDiskOfADirectory(t *testing.T) {
	dir := t.TempDir()
	supported := runtime.GOOS == "linux" || runtime.GOOS == "darwin"
	if disk, known := DiskOf(dir); known != supported || known && disk.Free <= 0 {
		t.Errorf("known %t, on %s: %+v", known, runtime.GOOS, disk)
	}
	if free, known := Free(dir); known != supported || known != (free > 0) {
		t.Errorf("known %t, on %s: %d bytes", known, runtime.GOOS, free)
	}
	if free, known := Free(filepath.Join(dir, "not", "there")); free != 0 || known {
		t.Errorf("a directory that does not exist has %d bytes, known %t", free, known)
	}
}
