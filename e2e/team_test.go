package main

import (
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// The balancer must not hide what it is there to prove: only requests without an answer are sent
// again.
func TestBalancerAsksAgainOnlyBeforeTheFirstByte(t *testing.T) {
	replica := func(answer http.HandlerFunc) string {
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		return s.URL
	}
	var asked atomic.Int64 // how often the good one was
	good := replica(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(w, r.Body)
	})
	silent := replica(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	broken := replica(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	failing := replica(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	for _, test := range []struct {
		name, first string
		status      int
		body        string
		whole       bool
	}{
		{"nobody listens", "http://127.0.0.1:1", 200, "question", true},
		{"gone without a word", silent, 200, "question", true},
		{"gone in the middle", broken, 200, "half", false},
		{"an error is an answer", failing, 503, "no\n", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			b, err := newBalancer(good, test.first) // turns begin with the second
			if err != nil {
				t.Fatal(err)
			}
			defer b.close()
			before := asked.Load()
			resp, err := http.Post(b.url, "text/plain", strings.NewReader("question"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || string(said) != test.body || (err == nil) != test.whole {
				t.Errorf("got %d, %q, %v", resp.StatusCode, said, err)
			}
			if again := asked.Load() > before; again != (test.body == "question") {
				t.Errorf("the other replica was asked: %v", again)
			}
		})
	}
}

// The list of packages that need a server has to be complete.
func TestPackagesOnPostgres(t *testing.T) {
	got, err := packagesOnPostgres("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"./internal/daemon", "./internal/daemon/accounttests", "./internal/daemon/limittests", "./internal/account/oauth", "./internal/store/sqlstore"} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is missing from %v", name, got)
		}
	}
	err = filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if !strings.HasSuffix(path, "_test.go") {
			if strings.Contains(string(text), "dbtest.Postgres") {
				t.Errorf("%s asks for a server; testsOnPostgres finds that only in tests", path)
			}
			return err
		}
		if strings.Contains(string(text), "PERIGEE_TEST_POSTGRES") {
			t.Errorf("%s reads PERIGEE_TEST_POSTGRES itself; dbtest.Postgres does that", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTestsOnPostgres(t *testing.T) {
	dir := t.TempDir()
	source := `package p
func TestItself(t *testing.T) { dbtest.Postgres(t) }
func TestTheServer(t *testing.T) { dbtest.PostgresServer(t) }
func TestThroughAFunction(t *testing.T) { helper(t) }
func helper(t *testing.T) { deeper(t) }
func TestThroughAMethod(t *testing.T) { new(rig).open(t) }
func (r *rig) open(t *testing.T) { deeper(t) }
func TestThroughAVariable(t *testing.T) { for range engines { } }
func TestWithoutOne(t *testing.T) { t.Log("Postgres"); other(t) }
func other(t *testing.T) {}
`
	deeper := "package p\nvar engines = []func(*testing.T){deeper}\nfunc deeper(t *testing.T) { _ = dbtest.Postgres }\n"
	for name, text := range map[string]string{"a_test.go": source, "b_test.go": deeper} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := testsOnPostgres(dir)
	if want := []string{"TestItself", "TestTheServer", "TestThroughAFunction", "TestThroughAMethod", "TestThroughAVariable"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %q, %v, want %q", got, err, want)
	}
}
