package sqlstore

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

func TestTroubleSaysWhatToDo(t *testing.T) {
	s := &Store{engine: &sqliteFile{path: "perigee.db"}}
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
		{"no answer", errNoAnswer, perigee.ClassUnavailable, "the way to it"},
		{"what nobody thought of", errors.New("boom"), perigee.ClassInternal, ""},
	}
	for _, test := range tests {
		e := wantClass(t, s.explain("open", test.err), test.class)
		if !strings.Contains(e.Next, test.next) || !strings.Contains(e.Message, "open perigee.db: ") || !errors.Is(e, test.err) {
			t.Errorf("%s: got %q", test.name, e.Error())
		}
	}
	said := perigee.Errorf(perigee.ClassNotFound, "no calls recorded yet")
	for _, err := range []error{nil, said, context.Canceled, fmt.Errorf("save: %w", context.DeadlineExceeded)} {
		if got := s.explain("open", err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
