package bundle

import (
	"context"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"perigee"
	"perigee/internal/observe/secrets"
	"perigee/internal/observe/trace"
	"perigee/internal/server/admin"
	"perigee/internal/server/mount"
)

// Path is the path of bundles, followed by the ID of a call. The daemon makes them because it has
// more secrets to redact than a command: access tokens are only in its memory.
const Path = "/v1/bundle/"

// A Source provides the data of bundles. The functions are called for each bundle.
type Source struct {
	Open     func(id string) (*trace.Trace, error)
	Calls    func() perigee.CallReader
	Secrets  func() []secrets.Named
	Accounts func(context.Context) []string // addresses
	Version  string
	Now      func() time.Time
	Audit    func(ctx context.Context, e perigee.AuditEntry)
}

// Point returns the path, for the owner only.
func Point(s Source) mount.Point {
	return mount.Methods{http.MethodGet: s.answer}.At(Path+"*", mount.Admin)
}

// answer answers GET /v1/bundle/{id} with an archive.
func (s Source) answer(w http.ResponseWriter, r *http.Request) error {
	if err := mount.KnownParameters(r.URL.Query()); err != nil {
		return err
	}
	id := mount.Wildcard(r)
	file, err := s.make(r.Context(), &id)
	e := perigee.AuditEntry{Action: perigee.AuditTraceRead, Object: id, Detail: "bundle"}
	if err != nil {
		e.Detail, e.Result = "", string(perigee.AsError(err).Class)
	}
	s.Audit(r.Context(), e)
	if err != nil {
		return err
	}
	defer discard(file)
	size, err := file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", `attachment; filename="`+FileName(id)+`"`)
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	_, _ = io.Copy(w, file) // a client that has left needs no error
	return nil
}

// make returns a temporary file with the bundle of a call, and sets id to the whole one.
func (s Source) make(ctx context.Context, id *string) (*os.File, error) {
	call, err := admin.FindCall(ctx, s.Calls(), *id)
	if err != nil {
		return nil, err
	}
	*id = call.ID
	t, err := s.Open(call.ID)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "perigee-bundle-")
	if err != nil {
		return nil, err
	}
	opts := Options{Trace: t, Secrets: s.Secrets(), Accounts: s.Accounts(ctx), Version: s.Version, Now: s.Now()}
	if err := Write(file, opts); err != nil {
		discard(file)
		return nil, err
	}
	return file, nil
}

func discard(file *os.File) {
	_ = file.Close()
	_ = os.Remove(file.Name())
}

// FileName is the name of the bundle of a call.
func FileName(id string) string { return "perigee-" + id + ".tar.gz" }

// ID returns the ID of the call from the file name of its bundle.
func ID(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "perigee-"), ".tar.gz")
}
