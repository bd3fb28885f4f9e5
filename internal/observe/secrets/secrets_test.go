package secrets_test

import (
	"fmt"
	"testing"
	"time"

	"perigee"
	"perigee/internal/observe/secrets"
)

// A rig is a collector of secrets that a test changes.
type rig struct {
	*secrets.Collector
	now           time.Time
	memory, files []string
	reads         int
}

func newRig() *rig {
	r := &rig{now: time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)}
	named := func(name string, values []string) (list []secrets.Named) {
		for _, v := range values {
			list = append(list, secrets.All(name, perigee.NewSecret(v))...)
		}
		return list
	}
	r.Collector = secrets.New(secrets.Options{
		Memory: func() []secrets.Named { return named("token", r.memory) },
		Files:  func() []secrets.Named { r.reads++; return named("file", r.files) },
		Now:    func() time.Time { return r.now },
	})
	return r
}

func (r *rig) hides(value string) bool { return r.Redactor().Text(value) == "[redacted]" }

func TestANewSecretIsKnownAtOnce(t *testing.T) {
	r := newRig()
	r.memory = []string{"access-token-1", ""}
	before := r.Redactor()
	if !r.hides("access-token-1") || r.hides("access-token-2") {
		t.Error("the first token")
	}
	if r.Redactor() != before {
		t.Error("the redactor is made again, although nothing has changed")
	}
	r.memory = []string{"access-token-2"}
	if !r.hides("access-token-2") || !r.hides("access-token-1") {
		t.Error("the second token, and the one before it")
	}
}

func TestFilesAreReadOnceInASecond(t *testing.T) {
	r := newRig()
	r.files = []string{"admin-token-1"}
	for range 10 {
		r.Redactor()
	}
	if r.reads != 1 || !r.hides("admin-token-1") {
		t.Errorf("%d reads", r.reads)
	}
	r.files, r.now = []string{"admin-token-2"}, r.now.Add(time.Second)
	if !r.hides("admin-token-2") || r.reads != 2 {
		t.Errorf("%d reads", r.reads)
	}
}

func TestASecretIsForgottenADayAfterItWasReplaced(t *testing.T) {
	r := newRig()
	r.memory = []string{"access-token-1"}
	r.Redactor()
	r.memory = nil
	r.now = r.now.Add(23 * time.Hour)
	if !r.hides("access-token-1") {
		t.Error("after 23 hours")
	}
	r.now = r.now.Add(3 * time.Hour)
	if r.hides("access-token-1") {
		t.Error("after 26 hours")
	}
}

func TestOldSecretsAreBounded(t *testing.T) {
	r := newRig()
	for round := range 5 {
		r.memory = nil
		for i := range 6000 {
			r.memory = append(r.memory, fmt.Sprintf("access-token-%d-%d", round, i))
		}
		r.now = r.now.Add(time.Minute)
		r.Redactor()
	}
	if n := len(r.Known()); n > 20_000 || n < 10_000 || !r.hides("access-token-4-5999") || r.hides("access-token-0-0") {
		t.Errorf("%d are known", n)
	}
}

func TestKnownNames(t *testing.T) {
	r := newRig()
	r.memory, r.files = []string{"access-token-1"}, []string{"admin-token-1"}
	known := r.Known()
	if len(known) != 2 || known[0].Name != "file" || known[1].Name != "token" || known[1].Secret.Reveal() != "access-token-1" {
		t.Errorf("%v", known)
	}
}
