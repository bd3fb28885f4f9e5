package daemon_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"perigee"
	"perigee/internal/config"
	"perigee/internal/daemon"
	"perigee/internal/perigeetest"
	"perigee/internal/perigeetest/await"
	"perigee/internal/simulator"
	"perigee/internal/sqlstore"
)

func newSealKey() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func storeConfig(address, key string) string {
	return fmt.Sprintf("store: {url: %q, seal_key: %q}\n", address, key)
}

// replicaTowers are two daemons on one database, with data directories of their own, and one provider.
func replicaTowers(t *testing.T, upstream string, script *simulator.Script, faults ...simulator.Fault) (a, b *accountRig) {
	t.Helper()
	store := storeConfig(perigeetest.Postgres(t), newSealKey())
	provider, url := startSimulator(t, simulator.Options{Script: script}, faults...)
	towers := make([]*accountRig, 2)
	for i := range towers {
		towers[i] = &accountRig{t: t, provider: provider, src: sources(gravityConfig(url, upstream)+store, dataDir(t))}
		towers[i].gateway = startIn(t, towers[i].src, nil)
	}
	return towers[0], towers[1]
}

// asked lists the accounts that the provider was asked with for answers, in order.
func (w *accountRig) asked() (accounts []string) {
	for _, call := range w.provider.Calls() {
		if strings.HasSuffix(call.Path, "streamGenerateContent") {
			name, _, _ := strings.Cut(call.Account, "@")
			accounts = append(accounts, name)
		}
	}
	return accounts
}

func TestReplicasShareAccounts(t *testing.T) {
	t.Parallel()
	a, b := replicaTowers(t, "", nil)
	a.imports(adaAndBob)
	a.mustAnswer()
	await.Until(t, "the other replica has the accounts, too", func() bool {
		status, _ := b.call()
		return status == http.StatusOK
	})
	if err := a.control().UseAccount(t.Context(), named("bob@example.com")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the other replica prefers the same account", func() bool {
		b.mustAnswer()
		asked := b.asked()
		return asked[len(asked)-1] == "bob"
	})
	a.wantOrder("bob", "bob, ada")
	b.wantOrder("bob", "bob, ada")
	if err := b.control().RemoveAccount(t.Context(), named("bob@example.com")); err != nil {
		t.Fatal(err)
	}
	a.want("ada")
	await.Until(t, "the other replica does without the one that was removed", func() bool {
		a.mustAnswer()
		asked := a.asked()
		return asked[len(asked)-1] == "ada"
	})
	a.wantOrder("", "ada")
	b.wantOrder("", "ada")
}

// A rotated token that one replica stores must not make other replicas refresh, too, and so on for ever.
func TestReplicasDoNotRefreshInTurnsForEver(t *testing.T) {
	t.Parallel()
	a, b := replicaTowers(t, "", &simulator.Script{RotateRefreshTokens: true})
	a.imports(adaAlone)
	a.mustAnswer()
	await.Until(t, "the other replica answers", func() bool {
		status, _ := b.call()
		return status == http.StatusOK
	})
	before := a.times("/token")
	// Two more looks at what has changed are enough to show it.
	end := time.After(5 * time.Second)
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		a.mustAnswer()
		b.mustAnswer()
		select {
		case <-tick.C:
			continue
		case <-end:
			tick.Stop()
		}
		break
	}
	if after := a.times("/token"); before != 2 || after != before {
		t.Errorf("%d refreshes, and %d later", before, after)
	}
}

func TestReplicasShareCooldowns(t *testing.T) {
	t.Parallel()
	a, b := replicaTowers(t, "pools: [antigravity]", nil,
		simulator.Fault{When: simulator.When{Method: "streamGenerateContent", Account: "ada"}, Do: "quota_exhausted", Delay: simulator.Duration(time.Hour), Times: 1})
	a.imports(adaAndBob)
	b.want("ada, bob")
	a.mustAnswer()
	await.Until(t, "the other replica lets the account rest", func() bool {
		rows, err := b.control().ExplainAccounts(t.Context(), "gemini-2.5-flash")
		return err == nil && slices.ContainsFunc(rows, func(r perigee.ChoiceRow) bool { return r.Email == "ada@example.com" && !r.Usable })
	})
	b.mustAnswer()
	if got := b.asked(); !slices.Equal(got, []string{"ada", "bob", "bob"}) {
		t.Errorf("the provider was asked with %v", got)
	}
}

func TestReplicasShareResponsesAndUsage(t *testing.T) {
	t.Parallel()
	a, b := replicaTowers(t, "", nil)
	a.imports(adaAlone)
	made := send(t, a.gateway, "/v1/responses", `{"model":"gemini-3-flash","input":"[[text: hello]]"}`)
	id, _ := made["id"].(string)
	resp, err := client.Get(b.gateway.URL() + "/v1/responses/" + id)
	if err != nil {
		t.Fatal(err)
	}
	if body := rest(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, "hello") {
		t.Errorf("got %d: %s", resp.StatusCode, body)
	}
	await.Until(t, "the other replica counts the call", func() bool {
		resp, err := client.Get(b.gateway.URL() + "/v1/usage")
		return err == nil && strings.Contains(rest(t, resp), `"calls":1`)
	})
}

// The open calls of a replica that is alive are left alone by other replicas, also when another one starts.
func TestReplicaThatStartsLeavesOpenCallsAlone(t *testing.T) {
	t.Parallel()
	address := perigeetest.Postgres(t)
	stage := newStage(t)
	text := stage.config(storeConfig(address, newSealKey()))
	first := start(t, text, nil)
	resp := openStream(t, first, "")
	read, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: perigee.NewSecret(address), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	is := func(want perigee.Outcome) bool {
		calls, err := read.Calls(t.Context(), perigee.CallQuery{})
		return err == nil && len(calls) == 1 && calls[0].Outcome == want
	}
	await.Until(t, "the open call is stored", func() bool { return is(perigee.OutcomeOpen) })
	start(t, text, nil)
	if !is(perigee.OutcomeOpen) {
		t.Error("the second replica cut off the call of the first")
	}
	close(stage.goOn)
	rest(t, resp)
	await.Until(t, "the call is done", func() bool { return is(perigee.OutcomeDone) })
}

func TestReplicaWithAnotherKeySaysSo(t *testing.T) {
	t.Parallel()
	a, b := replicaTowers(t, "", nil)
	a.imports(adaAlone)
	b.want("ada")
	loaded, err := config.Load(b.src)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Config.Store.SealKey = perigee.NewSecret(newSealKey())
	loaded.Config.DataDir = dataDir(t)
	d, err := daemon.Start(t.Context(), daemon.Options{Loaded: loaded, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Stop(context.Background()) })
	if got := strings.Join(d.Advice(), "\n"); !strings.Contains(got, "1 accounts of upstream gravity cannot be used by this replica") || !strings.Contains(got, "store.seal_key") {
		t.Errorf("it says %q", got)
	}
	// What it does about the account must not take it from replicas that have the key.
	handle, err := daemon.Connect(t.Context(), daemon.Options{Loaded: loaded, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if _, err := handle.EnableAccount(t.Context(), named("ada@example.com"), true); err != nil {
		t.Fatal(err)
	}
	b.want("ada")
	a.mustAnswer()
}

// A wire is the way to the database, which can be cut.
type wire struct {
	target string
	mu     sync.Mutex
	cut    bool
	open   map[net.Conn]bool
}

// newWire is the way to a database: direct is its address, and through that at the near end of the wire.
func newWire(t *testing.T, direct string) (w *wire, through string) {
	t.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &wire{target: u.Host, open: map[net.Conn]bool{}}
	u.Host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { w.carry(near) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.set(true)
		running.Wait()
	})
	return w, u.String()
}

func (w *wire) carry(near net.Conn) {
	far, err := net.Dial("tcp", w.target)
	if err != nil {
		_ = near.Close()
		return
	}
	w.mu.Lock()
	cut := w.cut
	w.open[near], w.open[far] = true, true
	w.mu.Unlock()
	if !cut {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
		_ = near.Close()
		<-done
	}
	_, _ = near.Close(), far.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.open {
			_ = c.Close()
		}
	}
}

func TestCallsAreAnsweredWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	direct := perigeetest.Postgres(t)
	w, through := newWire(t, direct)
	stage := newStage(t)
	close(stage.goOn)
	g := start(t, stage.config(storeConfig(through, newSealKey())), nil)
	if got := status(t, g, streaming, ""); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	w.set(true)
	for range 5 {
		if got := status(t, g, streaming, ""); got != http.StatusOK {
			t.Errorf("without the database a call gets %d", got)
		}
	}
	w.set(false)
	await.Until(t, "all calls are recorded", func() bool {
		store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: perigee.NewSecret(direct), ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		calls, err := store.Calls(t.Context(), perigee.CallQuery{})
		return err == nil && len(calls) == 6 && !slices.ContainsFunc(calls, func(c perigee.Call) bool { return c.Outcome != perigee.OutcomeDone })
	})
}
