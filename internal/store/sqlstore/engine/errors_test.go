package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"perigee"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	db := newSQLite(Options{Path: "perigee.db"})
	tests := []struct {
		name  string
		err   error
		class perigee.Class
		next  string
	}{
		{"full disk", &fs.PathError{Op: "open", Path: "perigee.db", Err: syscall.ENOSPC}, perigee.ClassUnavailable, "free some space"},
		{"read-only disk", &fs.PathError{Op: "open", Path: "perigee.db", Err: syscall.EROFS}, perigee.ClassUnavailable, "writable"},
		{"not allowed", fmt.Errorf("make it: %w", fs.ErrPermission), perigee.ClassUnavailable, "writable"},
		{"a file where a directory should be", &fs.PathError{Op: "mkdir", Path: "x", Err: syscall.ENOTDIR}, perigee.ClassUnavailable, "check the path"},
		{"no answer", ErrTimeout, perigee.ClassUnavailable, "the way to it"},
		{"an unknown error", errors.New("boom"), perigee.ClassInternal, ""},
	}
	for _, test := range tests {
		err := test.err
		db.Explain("open", &err)
		e := perigee.AsError(err)
		if e.Class != test.class || !strings.Contains(e.Hint, test.next) || !strings.Contains(e.Message, "open perigee.db: ") || !errors.Is(e, test.err) {
			t.Errorf("%s: got %q", test.name, e.Error())
		}
	}
	said := perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
	for _, err := range []error{nil, said, context.Canceled, fmt.Errorf("save: %w", context.DeadlineExceeded)} {
		got := err
		if db.Explain("open", &got); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
