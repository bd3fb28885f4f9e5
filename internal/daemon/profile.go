package daemon

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"perigee"
	_ "perigee/internal/lib/heapsample" // sets runtime.MemProfileRate
	"perigee/internal/server/mount"
)

// ProfilePath is the path of profiles.
const ProfilePath = "/v1/profile"

// The limits of the duration of a profile.
const (
	MinProfile = 100 * time.Millisecond
	MaxProfile = 5 * time.Minute
)

// newProfiles returns GET /v1/profile?duration=: a .tar.gz archive with profiles of the daemon. Only
// commands on this machine get it, through the socket. net/http/pprof is not used, because it adds
// its handlers to http.DefaultServeMux, and one of them answers with the command line.
func (o *observers) newProfiles() mount.Point {
	point := mount.Methods{http.MethodGet: o.answerProfile}.At(ProfilePath, mount.Socket)
	point.Command = "perigee doctor --profile 10s"
	return point
}

func (o *observers) answerProfile(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	if err := mount.KnownParameters(query, "duration"); err != nil {
		return err
	}
	duration, err := time.ParseDuration(query.Get("duration"))
	if err != nil || duration < MinProfile || duration > MaxProfile {
		return perigee.Errorf(perigee.ClassInvalid, "duration is not between %v and %v", MinProfile, MaxProfile).
			WithHint("send duration=10s")
	}
	archive, err := o.profile(r.Context(), duration)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Length", strconv.Itoa(len(archive)))
	_, _ = w.Write(archive) // a client that has left needs no error
	return nil
}

// profile profiles the CPU for a duration, and returns an archive of that profile and of the state
// at its end. None of the files has data of calls: profiles have addresses, names and counts, and
// stacks are written without arguments.
func (o *observers) profile(ctx context.Context, duration time.Duration) ([]byte, error) {
	var cpu, heap, goroutines bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		return nil, perigee.Errorf(perigee.ClassCapacity, "another profile is being recorded").WithHint("try again when it has ended")
	}
	began := time.Now()
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	pprof.StopCPUProfile()
	took := time.Since(began).Round(time.Millisecond)
	if ctx.Err() != nil { // the client has left, or the daemon ends
		return nil, ctx.Err()
	}
	o.d.opts.Logger.InfoContext(ctx, "profile recorded", "duration", took)
	if err := pprof.Lookup("heap").WriteTo(&heap, 0); err != nil {
		return nil, err
	}
	if err := pprof.Lookup("goroutine").WriteTo(&goroutines, 1); err != nil { // 1 is text; 2 would add arguments
		return nil, err
	}
	return pack(o.d.opts.Now(), []packed{
		{"about.txt", o.aboutProfile(took)},
		{"cpu.pprof", cpu.Bytes()},
		{"heap.pprof", heap.Bytes()},
		{"goroutines.txt", goroutines.Bytes()},
	})
}

// aboutProfile describes the process.
func (o *observers) aboutProfile(took time.Duration) []byte {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	text := fmt.Appendf(nil, "perigee %s, %s, %s/%s, %d processors\n", o.d.opts.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	text = fmt.Appendf(text, "%s, CPU profile of %v\n", o.d.opts.Now().UTC().Format(time.RFC3339), took)
	text = fmt.Appendf(text, "%d open calls, %d goroutines, heap %d bytes in use and %d from the system, %d collections\n",
		o.d.Active(), runtime.NumGoroutine(), memory.HeapInuse, memory.HeapSys, memory.NumGC)
	return fmt.Appendf(text, "heap.pprof is an estimate from one sample for each %d bytes allocated\n", runtime.MemProfileRate)
}

// A packed is a file of an archive.
type packed struct {
	name string
	data []byte
}

// pack returns a .tar.gz archive.
func pack(now time.Time, files []packed) ([]byte, error) {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	out := tar.NewWriter(compressed)
	for _, f := range files {
		if err := out.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: 0o600, ModTime: now}); err != nil {
			return nil, err
		}
		if _, err := out.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	err := compressed.Close()
	return archive.Bytes(), err
}
