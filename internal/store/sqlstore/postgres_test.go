package sqlstore

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"perigee"
	"perigee/internal/store/sqlstore/engine"
	"perigee/internal/testing/perigeetest/await"
)

func TestManyReplicasStartAtOnce(t *testing.T) {
	needPostgres(t)
	options := freshPostgres(t)
	var starting sync.WaitGroup
	for i := range 6 {
		starting.Go(func() {
			options := options
			options.Replica = fmt.Sprint(i)
			s, err := Open(t.Context(), options)
			if err != nil {
				t.Error(err)
				return
			}
			mustSave(t, s, fullCall(fmt.Sprint(i)))
			mustClose(t, s)
		})
	}
	await.Return(t, starting.Wait, "the starts")
	s := openWith(t, options)
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 6 {
		t.Errorf("got %v", ids(got))
	}
	var steps int
	if err := s.db.Read.QueryRow(`SELECT count(*) FROM schema_version`).Scan(&steps); err != nil || steps == 0 {
		t.Errorf("%d steps, %v", steps, err)
	}
}

func TestPostgresRefusals(t *testing.T) {
	needPostgres(t)
	exec := func(statement string, args ...any) func(*testing.T, Options) {
		return func(t *testing.T, o Options) {
			config, err := pgx.ParseConfig(o.URL.Reveal())
			if err != nil {
				t.Fatal(err)
			}
			db := stdlib.OpenDB(*config)
			defer func() { _ = db.Close() }()
			if _, err := db.Exec(statement, args...); err != nil {
				t.Fatal(err)
			}
		}
	}
	newer := func(t *testing.T, o Options) {
		openWith(t, o)
		exec(futureVersion)(t, o)
	}
	nothing := func(*testing.T, Options) {}
	tests := []struct {
		name     string
		prepare  func(*testing.T, Options)
		change   func(*Options)
		class    perigee.Class
		message  string
		next     string
		readOnly bool
	}{
		{"a newer schema", newer, nil, perigee.ClassUnavailable, "99", "newer", false},
		{"a newer schema", newer, nil, perigee.ClassUnavailable, "99", "newer", true},
		{"another program's tables", exec(`CREATE TABLE bookmarks (url TEXT)`), nil, perigee.ClassInvalid, "another program", "search_path", false},
		{"another program's schema_version", exec(`CREATE TABLE schema_version (v TEXT)`), nil, perigee.ClassInvalid, "another program", "search_path", false},
		{"nothing yet", nothing, nil, perigee.ClassNotFound, "no calls recorded yet", "perigee serve", true},
		{"a schema that is not there", nothing, func(o *Options) { o.URL = withParameter(t, o.URL, "search_path", "nowhere") },
			perigee.ClassUnavailable, "no schema", "make the schema", false},
		{"a database that is not there", nothing, func(o *Options) { o.URL = withParameter(t, o.URL, "dbname", "nowhere") },
			perigee.ClassUnavailable, "nowhere", "createdb", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			options := freshPostgres(t)
			options.ReadOnly = false
			test.prepare(t, options)
			if test.change != nil {
				test.change(&options)
			}
			options.ReadOnly = test.readOnly
			s, err := Open(t.Context(), options)
			if err == nil {
				mustClose(t, s)
			}
			e := wantClass(t, err, test.class)
			if !strings.Contains(e.Message, test.message) || !strings.Contains(e.Hint, test.next) {
				t.Errorf("got %q, next %q", e.Message, e.Hint)
			}
		})
	}
}

// Nothing listens at these addresses, so no server is needed.
func TestUnreachablePostgresIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().String()
	_ = l.Close()
	tests := []struct {
		url   string
		class perigee.Class
		next  string
	}{
		{"postgres://ada:hunter22@" + free + "/perigee", perigee.ClassUnavailable, "start PostgreSQL"},
		{"postgres://ada:hunter22@%zz/perigee", perigee.ClassInvalid, "write it as"},
		{"postgres://ada:hunter22@127.0.0.1:port/perigee", perigee.ClassInvalid, "write it as"},
	}
	for _, test := range tests {
		_, err := Open(t.Context(), Options{URL: perigee.NewSecret(test.url)})
		e := wantClass(t, err, test.class)
		if !strings.Contains(e.Hint, test.next) || strings.Contains(e.Error(), "hunter22") {
			t.Errorf("%s: got %q, next %q", test.url, e.Message, e.Hint)
		}
	}
}

func TestPostgresReadOnly(t *testing.T) {
	needPostgres(t)
	options := freshPostgres(t)
	daemon := openWith(t, options)
	mustSave(t, daemon, fullCall("a"))
	options.ReadOnly = true
	reader := openWith(t, options)
	if got := ids(mustCalls(t, reader, perigee.CallQuery{})); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %v", got)
	}
	wantClass(t, reader.SaveCalls(t.Context(), []perigee.Call{fullCall("b")}), perigee.ClassInternal)
	if _, err := reader.db.Read.Exec("DELETE FROM calls"); err == nil {
		t.Error("a reader could write")
	}
	if alive, err := reader.Replicas(t.Context()); alive != 1 || err != nil {
		t.Errorf("a reader counts as a replica: %d, %v", alive, err)
	}
}

// A server may be set to lose what it has confirmed when the power goes; accounts are confirmed
// only on disk.
func TestPostgresAccountWritesAreSynced(t *testing.T) {
	needPostgres(t)
	for setting, want := range map[string]string{"off": "on", "remote_apply": "remote_apply", "local": "local"} {
		options := freshPostgres(t)
		options.URL = withParameter(t, options.URL, "synchronous_commit", setting)
		s := openWith(t, options)
		var inside, outside string
		err := s.db.TransactDurably(t.Context(), "test", func(ctx context.Context, tx engine.Tx) error {
			_, err := engine.One(ctx, tx, `SELECT current_setting('synchronous_commit')`, nil, &inside)
			return err
		})
		if err != nil || inside != want {
			t.Errorf("%s: inside it is %q (%v), want %q", setting, inside, err, want)
		}
		if err := s.db.Read.QueryRow(`SELECT current_setting('synchronous_commit')`).Scan(&outside); err != nil || outside != setting {
			t.Errorf("%s: outside it is %q, %v", setting, outside, err)
		}
	}
}

// A row that PostgreSQL refuses would be tried again for ever, and all behind it would wait.
func TestPostgresTakesAnyText(t *testing.T) {
	needPostgres(t)
	s := openWith(t, freshPostgres(t))
	c := fullCall("a")
	c.Error, c.Client.Name = "bad \x00 byte", "caf\xe9"
	mustSave(t, s, c)
	got := mustCalls(t, s, perigee.CallQuery{ID: "a"})[0]
	if got.Error != "bad \uFFFD byte" || got.Client.Name != "caf\uFFFD" {
		t.Errorf("got %q, %q", got.Error, got.Client.Name)
	}
}

// What a server that is started anew does to its clients.
func TestLostConnectionsAreMadeAgain(t *testing.T) {
	needPostgres(t)
	options := freshPostgres(t)
	options.URL = withParameter(t, options.URL, "application_name", options.Replica)
	s := openWith(t, options)
	a := s.Accounts(boundSealer{})
	mustAdd(t, a, signIn("ada@example.com", "t"))
	for i := range 5 {
		administer(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '`+options.Replica+`'`)
		// A call that was using a terminated connection may fail, once for each connection.
		var err error
		for range s.db.Write.Stats().MaxOpenConnections + 1 {
			if err = s.SaveCalls(t.Context(), []perigee.Call{fullCall(fmt.Sprint(i))}); err == nil {
				break
			}
			wantClass(t, err, perigee.ClassUnavailable)
		}
		if err != nil {
			t.Fatal(err)
		}
		mustChange(t, a, theOnly(t, a))
	}
	if got := mustCalls(t, s, perigee.CallQuery{}); len(got) != 5 {
		t.Errorf("got %v", ids(got))
	}
}

func TestFullPoolWaitsInsteadOfFailing(t *testing.T) {
	needPostgres(t)
	s := openWith(t, freshPostgres(t))
	var all sync.WaitGroup
	connections := s.db.Write.Stats().MaxOpenConnections
	if connections != 12 {
		t.Errorf("at most %d connections", connections)
	}
	for i := range 4 * connections {
		all.Go(func() { mustSave(t, s, fullCall(fmt.Sprint(i))) })
	}
	await.Return(t, all.Wait, "the calls")
	if got := mustUsage(t, s, perigee.UsageQuery{}); got[0].Calls != int64(4*connections) {
		t.Errorf("got %+v", got)
	}
}

func BenchmarkPostgresSaveCalls(b *testing.B) {
	needPostgres(b)
	for _, size := range []int{1, 50, 1000} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			s := openWith(b, freshPostgres(b))
			batch := make([]perigee.Call, size)
			n := 0
			for b.Loop() {
				for i := range batch {
					n++
					batch[i] = fullCall(fmt.Sprintf("%08d", n))
				}
				mustSave(b, s, batch...)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/call")
		})
	}
}

func BenchmarkPostgresLeaseRefresh(b *testing.B) {
	needPostgres(b)
	a := openWith(b, freshPostgres(b)).Accounts(boundSealer{})
	for b.Loop() {
		release, err := a.LeaseRefresh(b.Context(), "gravity", "ada@example.com")
		if err != nil {
			b.Fatal(err)
		}
		release()
	}
}
