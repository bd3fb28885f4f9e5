package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"perigee"
	"perigee/internal/server/imagestore"
	"perigee/internal/server/mount"
)

// countingStore counts what is saved, and fails while it has an error.
type countingStore struct {
	ImageStore
	saved int
	err   error
}

func (s *countingStore) Save(string, []byte) (string, error) {
	s.saved++
	return "i" + strconv.Itoa(s.saved), s.err
}

func newKeeper(store ImageStore, log *bytes.Buffer) *imageKeeper {
	return &imageKeeper{Store: store, Logger: slog.New(slog.NewTextHandler(log, nil)), Call: "c1", Log: &perigee.CallLog{},
		Base: "http://here"}
}

// The images of one answer beyond the hundredth stand in the answer, and one note and one log line
// say so.
func TestOneAnswerKeepsAHundredImages(t *testing.T) {
	var store countingStore
	var log bytes.Buffer
	k := newKeeper(&store, &log)
	for i := range 103 {
		if link, kept := k.Keep("image/png", "aGVsbG8="), i < 100; kept != (link == "http://here/v1/images/i"+strconv.Itoa(i+1)) ||
			!kept && link != "" {
			t.Errorf("image %d: %q", i, link)
		}
	}
	notes := k.Log.Notes()
	if store.saved != 100 || len(notes) != 101 || notes[100].String() != "mapped image to a data URI" {
		t.Errorf("%d saved, %d notes", store.saved, len(notes))
	}
	if lines := strings.Count(log.String(), "it has too many"); lines != 1 {
		t.Errorf("%d lines:\n%s", lines, &log)
	}
}

func TestOneAnswerKeeps64MiB(t *testing.T) {
	var store countingStore
	k := newKeeper(&store, &bytes.Buffer{})
	large := base64.StdEncoding.EncodeToString(make([]byte, 30<<20))
	for i, want := range []bool{true, true, false} {
		if link := k.Keep("image/png", large); (link != "") != want {
			t.Errorf("image %d: %q", i, link)
		}
	}
	if link := k.Keep("image/png", "aGVsbG8="); link == "" {
		t.Error("a small one still fits")
	}
}

// Where an image cannot be kept, the client gets the data itself.
func TestImagesThatCannotBeKept(t *testing.T) {
	for name, test := range map[string]struct {
		data string
		err  error
	}{"broken base64": {"a", nil}, "full disk": {"aGVsbG8=", errors.New("disk is full")}} {
		var log bytes.Buffer
		k := newKeeper(&countingStore{err: test.err}, &log)
		if link := k.Keep("image/png", test.data); link != "" {
			t.Errorf("%s: %q", name, link)
		}
		if link := k.Link(&perigee.Blob{MIME: "image/png", Data: test.data}); link != "data:image/png;base64,"+test.data {
			t.Errorf("%s: %q", name, link)
		}
		if n := strings.Count(log.String(), "could not be kept"); n != 2 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for host, want := range map[string]string{"": "", "a b": "", `x"onload=`: "", "localhost:8318": "http://localhost:8318",
		"[::1]:1": "http://[::1]:1"} {
		if got := baseURL(&http.Request{Host: host}); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
}

func TestServingImages(t *testing.T) {
	store := imagestore.New(imagestore.Options{Dir: t.TempDir()})
	id, err := store.Save("image/png", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(store ImageStore, method, id, span string) (*httptest.ResponseRecorder, error) {
		r := httptest.NewRequest(method, imagePath+"x", nil)
		if span != "" {
			r.Header.Set("Range", span)
		}
		var failed error
		r = r.WithContext(mount.WithCall(r.Context(), &mount.Call{Fail: func(err error) { failed = err }}))
		mount.SetWildcard(r, id)
		w := httptest.NewRecorder()
		imagePoint(store).Handler.ServeHTTP(w, r)
		return w, failed
	}
	for _, test := range []struct {
		store        ImageStore
		method, id   string
		span         string
		status       int
		body         string
		class        perigee.Class
		allowedAfter string
	}{
		{store, "GET", id, "", 200, "hello", "", ""},
		{store, "HEAD", id, "", 200, "", "", ""},
		{store, "GET", id, "bytes=1-2", 206, "el", "", ""},
		{store, "GET", id, "bytes=9-", 416, "invalid range: failed to overlap\n", "", ""},
		{store, "GET", "0000", "", 200, "", perigee.ClassNotFound, ""},
		{store, "GET", "../../etc/passwd", "", 200, "", perigee.ClassNotFound, ""},
		{store, "DELETE", id, "", 200, "", perigee.ClassInvalid, "GET"},
		{nil, "GET", id, "", 200, "", perigee.ClassUnimplemented, ""},
	} {
		w, err := get(test.store, test.method, test.id, test.span)
		class := perigee.Class("")
		if err != nil {
			class = perigee.AsError(err).Class
		}
		if w.Code != test.status || w.Body.String() != test.body || class != test.class || w.Header().
			Get("Allow") != test.allowedAfter {
			t.Errorf("%s %s %s: %d %q, %v", test.method, test.id, test.span, w.Code, w.Body, err)
		}
	}
}
