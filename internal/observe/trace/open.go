package trace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"perigee"
)

// dayLayout and timeLayout are the names of directories, in UTC: 2026-11-15/142004.088-ID.
const (
	dayLayout  = "2006-01-02"
	timeLayout = "150405.000"
)

// A Trace is the directory of one call. The call may still be open, and the directory may be
// removed at any time, when it is the oldest one and traces.keep is reached.
type Trace struct {
	Dir  string
	Meta Meta
}

// Open returns the trace of a call. The error is of perigee.ClassNotFound if the call has no
// directory. dir is the directory of all traces; no Store is needed. If the daemon was killed
// during the call, the outcome is "open".
func Open(dir, id string) (*Trace, error) { return open(find(dir, id), id) }

// In returns Open for one directory of traces.
func In(dir string) func(id string) (*Trace, error) {
	return func(id string) (*Trace, error) { return Open(dir, id) }
}

// open returns the trace in a directory; path is empty if there is none. An empty directory is none:
// perigee was killed before it wrote to it.
func open(path, id string) (*Trace, error) {
	if entries, err := os.ReadDir(path); path == "" || err == nil && len(entries) == 0 {
		return nil, perigee.Errorf(perigee.ClassNotFound, "there is no trace directory for call %s", id).
			WithHint("traces.keep and traces.bodies in the configuration determine what is kept; calls that succeed while perigee is busy are not traced; perigee trace list --json has bodies: true for the calls that have one")
	}
	t := &Trace{Dir: path}
	if err := t.readMeta(id); err != nil {
		return nil, err
	}
	return t, nil
}

// readMeta reads meta.json. A directory without one, or with an incomplete one, belongs to a call
// that was cut off.
func (t *Trace) readMeta(id string) error {
	data, err := t.Read(MetaName)
	if err == nil {
		err = json.Unmarshal(data, &t.Meta)
	}
	if errors.Is(err, fs.ErrPermission) {
		return perigee.Errorf(perigee.ClassForbidden, "read a trace: %w", err).WithHint("run the command as the user that runs perigee serve")
	}
	t.Meta.ID = cmp.Or(t.Meta.ID, id)
	t.Meta.Outcome = cmp.Or(t.Meta.Outcome, perigee.OutcomeOpen)
	if t.Meta.Time.IsZero() {
		t.Meta.Time = timeOf(t.Dir)
	}
	t.Meta.Bodies = t.has(ClientRequestName)
	return nil
}

// Read returns the content of a file. The error is fs.ErrNotExist for a file that the trace does
// not have, and another one for a file that no recorder has written.
func (t *Trace) Read(name string) ([]byte, error) {
	file, size, err := t.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if size > 2*maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than perigee writes", name, size)
	}
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err = content.ReadFrom(file)
	return content.Bytes(), err
}

// OpenFile opens a file, and returns its current size. The error is as for Read.
func (t *Trace) OpenFile(name string) (file io.ReadCloser, size int64, err error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return nil, 0, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = root.Close() }()
	plain, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		if p, err := openPacked(root); err == nil {
			return p.open(name)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := plain.Stat()
	if err != nil {
		_ = plain.Close()
		return nil, 0, err
	}
	return plain, info.Size(), nil
}

// openRegular opens a file, and no link. The error is fs.ErrNotExist for anything else.
func openRegular(dir *os.Root, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	return dir.Open(name)
}

// Files returns the names of the files that the trace has, in the order in which a reader wants
// them: meta.json, the client's request, notes, the requests to providers and their answers, try by
// try, then events, the client's answer and the error.
func (t *Trace) Files() []string {
	entries, err := os.ReadDir(t.Dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	if slices.Contains(names, PackedName) {
		names = t.packedNames()
	}
	sortFiles(names, func(name string) string { return name })
	return names
}

// packedNames returns the names of the files of a call that is written as one file.
func (t *Trace) packedNames() (names []string) {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	p, err := openPacked(root)
	if err != nil {
		return nil
	}
	defer func() { _ = p.Close() }()
	for _, f := range p.Files {
		names = append(names, f.Name)
	}
	return names
}

// sortFiles sorts files in the order of Files.
func sortFiles[F any](list []F, name func(F) string) {
	slices.SortFunc(list, func(a, b F) int {
		groupA, tryA := place(name(a))
		groupB, tryB := place(name(b))
		return cmp.Or(cmp.Compare(groupA, groupB), cmp.Compare(tryA, tryB), strings.Compare(name(a), name(b)))
	})
}

// order has the names of files that a trace has once. The files of tries are where "" is.
var order = []string{MetaName, ClientRequestName, NotesName, "", EventsName, ClientResponseName, ErrorName}

// place returns the index of a file in order, and the number of its try, as in
// upstream_request.2.json. The first try has no number.
func place(name string) (group, try int) {
	if group = slices.Index(order, name); group >= 0 {
		return group, 0
	}
	parts := strings.Split(name, ".")
	try, err := strconv.Atoi(parts[min(1, len(parts)-1)])
	if err != nil {
		try = 1
	}
	return slices.Index(order, ""), try
}

func (t *Trace) has(name string) bool {
	file, _, err := t.OpenFile(name)
	if err != nil {
		return false
	}
	_ = file.Close()
	return true
}

// UpstreamRequest is the name of the file with the request of a try, counted from 1.
func UpstreamRequest(try int) string { return "upstream_request" + numbered(try) + ".json" }

// UpstreamResponse is the name of the file with the answer to it: a stream of events, or one body.
func UpstreamResponse(try int, stream bool) string {
	if stream {
		return "upstream_response" + numbered(try) + ".sse"
	}
	return "upstream_response" + numbered(try) + ".json"
}

// IsAnswer reports whether a file has an answer, or the events of one, in which a text may be
// spread over several events.
func IsAnswer(name string) bool {
	return name == EventsName || name == ClientResponseName || strings.HasPrefix(name, "upstream_response.")
}

func numbered(try int) string {
	if try < 2 {
		return ""
	}
	return "." + strconv.Itoa(try)
}

// Has returns the calls that have a directory with the client's request, so that they can be sent
// again.
func Has(dir string, ids ...string) map[string]bool { return hasIn(dir, nil, ids) }

// hasIn is Has for calls of some days, or of any day if days is nil.
func hasIn(dir string, days map[string]bool, ids []string) map[string]bool {
	has, missing := map[string]bool{}, make(map[string]bool, len(ids))
	for _, id := range ids {
		missing[id] = true
	}
	for path, id := range directoriesOf(dir, days) {
		if len(missing) == 0 {
			break
		}
		if missing[id] {
			delete(missing, id)
			if t := (Trace{Dir: path}); t.has(ClientRequestName) {
				has[id] = true
			}
		}
	}
	return has
}

// A Reader adds to calls whether they have a trace directory with bodies.
type Reader struct {
	perigee.CallReader
	Dir   func() string
	Store *Store // of a running daemon, in place of Dir; it knows all directories
}

// Calls returns calls, the newest first.
func (r Reader) Calls(ctx context.Context, q perigee.CallQuery) ([]perigee.Call, error) {
	calls, err := r.CallReader.Calls(ctx, q)
	ids, days := make([]string, len(calls)), map[string]bool{}
	for i := range calls {
		ids[i] = calls[i].ID
		days[calls[i].Time.UTC().Format(dayLayout)] = true
	}
	if days[time.Time{}.Format(dayLayout)] {
		days = nil
	}
	var has map[string]bool
	if r.Store != nil {
		has = r.Store.has(ids)
	} else {
		has = hasIn(r.Dir(), days, ids)
	}
	for i := range calls {
		calls[i].Bodies = has[calls[i].ID]
	}
	return calls, err
}

// Open returns the trace of a call, as the function Open does, without a search in directories.
func (s *Store) Open(id string) (*Trace, error) { return open(s.find(id), id) }

// find returns the directory of a call; empty if there is none.
func (s *Store) find(id string) string {
	path, known := s.ring.find(id)
	switch {
	case !known:
		return find(s.opts.Dir, id)
	case path == "":
		return ""
	}
	path = filepath.Join(s.opts.Dir, path)
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return "" // the user has removed it
	}
	return path
}

// has returns what Has does, without a search in directories.
func (s *Store) has(ids []string) map[string]bool {
	has := map[string]bool{}
	for _, id := range ids {
		if path := s.find(id); path != "" && (&Trace{Dir: path}).has(ClientRequestName) {
			has[id] = true
		}
	}
	return has
}

// find returns the directory of a call; empty if there is none.
func find(dir, id string) string {
	for path, found := range directories(dir) {
		if found == id {
			return path
		}
	}
	return ""
}

// directories returns the directories of calls and the IDs of the calls, the newest first.
func directories(dir string) iter.Seq2[string, string] { return directoriesOf(dir, nil) }

// directoriesOf returns the directories of calls of some days, or of any day if days is nil.
func directoriesOf(dir string, days map[string]bool) iter.Seq2[string, string] {
	return func(yield func(path, id string) bool) {
		for _, day := range slices.Backward(namesIn(dir)) {
			if _, err := time.Parse(dayLayout, day); err != nil || days != nil && !days[day] {
				continue
			}
			for _, name := range slices.Backward(namesIn(filepath.Join(dir, day))) {
				if id := idOf(name); id != "" && !yield(filepath.Join(dir, day, name), id) {
					return
				}
			}
		}
	}
}

// namesIn returns the names of the directories in a directory, in order. Links are left out.
func namesIn(dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// idOf returns the ID of the call from the name of its directory, or "" if the name is invalid.
func idOf(name string) string {
	if len(name) <= len(timeLayout)+1 || name[len(timeLayout)] != '-' {
		return ""
	}
	if _, err := time.Parse(timeLayout, name[:len(timeLayout)]); err != nil {
		return ""
	}
	return name[len(timeLayout)+1:]
}

// timeOf is when the call of a directory began.
func timeOf(dir string) time.Time {
	day, name := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
	at, _ := time.Parse(dayLayout+timeLayout, day+name[:min(len(timeLayout), len(name))])
	return at
}
