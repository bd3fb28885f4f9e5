package reqbody

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"perigee"
)

func TestDecompress(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("hello"))
	_ = z.Close()
	for _, test := range []struct {
		encoding, body string
		want           string
		status         int // of the error; 0 means it has none of its own
		fails          bool
	}{
		{"", "hello", "hello", 0, false},
		{"Identity", "hello", "hello", 0, false},
		{"GZIP", packed.String(), "hello", 0, false},
		{"gzip", "hello, this is no gzip", "", 0, true},
		{"gzip", "", "", 0, true},
		{"gzip", packed.String()[:5], "", 0, true},
		{"br", "hello", "", http.StatusUnsupportedMediaType, true},
		{strings.Repeat("x", 5000), "hello", "", http.StatusUnsupportedMediaType, true},
	} {
		r, err := Decompress(strings.NewReader(test.body), test.encoding)
		if test.fails {
			if e := perigee.AsError(err); err == nil || e.Class != perigee.ClassInvalid || e.Status != test.status ||
				len(e.Message) > 300 {
				t.Errorf("%.20q: %v", test.encoding, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != test.want {
			t.Errorf("%q: %q, %v", test.encoding, got, err)
		}
	}
}

func TestExplain(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	own := perigee.Errorf(perigee.ClassCapacity, "no memory")
	for _, test := range []struct {
		ctx    context.Context
		err    error
		class  perigee.Class
		status int
	}{
		{t.Context(), own, perigee.ClassCapacity, 0},
		{t.Context(), &http.MaxBytesError{Limit: 9}, perigee.ClassInvalid, http.StatusRequestEntityTooLarge},
		{t.Context(), ErrTooLarge, perigee.ClassInvalid, http.StatusRequestEntityTooLarge},
		{t.Context(), os.ErrDeadlineExceeded, perigee.ClassInvalid, http.StatusRequestTimeout},
		{gone, errors.New("reset"), perigee.ClassCanceled, 0},
		{gone, io.ErrUnexpectedEOF, perigee.ClassInvalid, 0},
		{t.Context(), errors.New("reset"), perigee.ClassInvalid, 0},
	} {
		e := perigee.AsError(Explain(test.ctx, test.err, 9, "limits.body"))
		if e.Class != test.class || e.Status != test.status {
			t.Errorf("%v: %s, %d: %v", test.err, e.Class, e.Status, e)
		}
	}
}

// One source has a part of the budget for its uploads; its first body is never refused here.
func TestUploadsOfOneSource(t *testing.T) {
	var u Uploads
	var first, second, other int64
	if !u.Add("a", &first, 100, 60) {
		t.Error("the first body of a source is refused")
	}
	if !u.Add("a", &first, 20, 60) {
		t.Error("the only body of a source may grow")
	}
	if u.Add("a", &second, 1, 60) || second != 0 {
		t.Error("a second body beyond the bound is accepted")
	}
	if !u.Add("b", &other, 50, 60) {
		t.Error("another source is refused")
	}
	if !u.Add("a", &first, -first, 60) || first != 0 || len(u.by) != 1 {
		t.Errorf("an arrived body is still counted: %d, %v", first, u.by)
	}
	if !u.Add("a", &second, 30, 60) || !u.Add("a", &first, 30, 60) || u.Add("a", &first, 1, 60) {
		t.Errorf("two bodies share the bound: %v", u.by)
	}
	if !u.Add("a", &first, 0, 0) {
		t.Error("nothing more is refused")
	}
}

func TestWeight(t *testing.T) {
	for _, test := range []struct{ size, maxCall, want int64 }{{10, 1000, 40}, {10, 20, 20}, {10, 5, 10}, {0, 5, 0}} {
		if got := Weight(test.size, test.maxCall); got != test.want {
			t.Errorf("%d of %d: %d", test.size, test.maxCall, got)
		}
	}
}

// Memory is reserved before the bytes are received, and a body beyond its limit is refused at its
// first byte too many.
func TestReadReservesBeforeItReceives(t *testing.T) {
	for _, announced := range []int64{-1, 0, 100_000} {
		body := strings.Repeat("x", 100_000)
		reserved := int64(0)
		got, err := Read(strings.NewReader(body), announced, 1<<20, func(size int64) error {
			reserved = max(reserved, size)
			return nil
		}, func(received int) {
			if int64(received) > reserved+1 {
				t.Errorf("%d received, %d reserved", received, reserved)
			}
		})
		if err != nil || string(got) != body {
			t.Errorf("announced %d: %d bytes, %v", announced, len(got), err)
		}
	}
	if _, err := Read(strings.NewReader("123456"), -1, 5, func(int64) error { return nil }, func(int) {}); !errors.Is(err,
		ErrTooLarge) {
		t.Errorf("beyond the limit: %v", err)
	}
	full := errors.New("full")
	if _, err := Read(strings.NewReader("1"), 1, 5, func(int64) error { return full }, func(int) {}); !errors.Is(err, full) {
		t.Errorf("without memory: %v", err)
	}
}
