package trace

import (
	"context"
	"log/slog"
	"path/filepath"

	"perigee/internal/lib/atomicfile"
)

// Reserve is the free space that traces leave to the database, which is on the same disk: calls
// must be recorded even if there is no space for traces. Below it the oldest traces are removed, if
// that helps: where something else has filled the disk, nothing is traced, and traces are removed
// only below the danger mark.
const (
	Reserve = 32 << 20
	danger  = Reserve / 4
)

// A space measures the free space of the disk, for one goroutine.
type space struct {
	dir  string
	free func(dir string) (bytes int64, known bool)
	left int64 // bytes that may be written before the free space is measured again
}

// lacks measures, and returns how many bytes the disk lacks.
func (s *space) lacks() int64 {
	free, known := s.free(s.dir)
	if !known { // the directory is created with the first trace
		free, known = s.free(filepath.Dir(s.dir))
	}
	if s.left = free - Reserve; !known {
		s.left = Reserve
	}
	return max(0, -s.left)
}

// makeRoom removes the oldest calls that have ended until the disk has enough free space, or until
// as many bytes are removed as were missing: some file systems report freed space with a delay.
func (r *ring) makeRoom(d *disk, s *space) (removed int) {
	lacks := s.lacks()
	if lacks > r.total && s.left+Reserve >= danger {
		return 0
	}
	for size := int64(0); lacks > 0 && size < lacks && s.left < 0; removed++ {
		n, ok := r.removeOldest(d)
		if !ok {
			return removed
		}
		size += n
		s.lacks()
	}
	return removed
}

// MakeRoom removes the oldest traces if the disk has less free space than Reserve, and they are the
// reason or the disk is full. It is for the start of a daemon, before the database is opened, which
// needs room for its log. No Store may have the directory.
func MakeRoom(ctx context.Context, dir string, logger *slog.Logger) {
	s, d := space{dir: dir, free: atomicfile.Free}, disk{dir: dir}
	defer d.close()
	if s.lacks() == 0 {
		return
	}
	r := ring{}
	r.add(list(ctx, dir))
	if removed := r.makeRoom(&d, &s); removed > 0 {
		logger.WarnContext(ctx, lowSpace, "traces", removed, "reserve", Reserve)
	}
}

const lowSpace = "the disk is almost full: removed the oldest traces"

// makeRoom keeps the reserve. It reports whether bytes may be written.
func (s *Store) makeRoom() bool {
	if s.space.lacks() > 0 && s.ring.scanned {
		if removed := s.ring.makeRoom(&s.disk, &s.space); removed > 0 {
			s.warn(lowSpace, "traces", removed, "reserve", Reserve)
		}
	}
	s.low.Store(s.space.left < 0)
	return s.space.left >= 0
}
