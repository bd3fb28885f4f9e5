package accounttests

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"perigee"
	"perigee/internal/daemon"
	"perigee/internal/simulator"
	"perigee/internal/store/config"
	"perigee/internal/store/sqlstore"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest/await"
	"perigee/internal/testing/perigeetest/dbtest"
)

// replicaTowers are two daemons on one database, with data directories of their own, and one
// provider.
func replicaTowers(t *testing.T, upstream string, script *simulator.Script, faults ...simulator.Fault) (a, b *accountRig) {
	t.Helper()
	store := daemontest.StoreConfig(dbtest.Postgres(t), daemontest.NewSealKey())
	provider, url := daemontest.StartSimulator(t, simulator.Options{Script: script}, faults...)
	towers := make([]*accountRig, 2)
	for i := range towers {
		towers[i] = &accountRig{t: t, provider: provider, src: daemontest.Sources(daemontest.AntigravityConfig(url, upstream)+store, daemontest.DataDir(t))}
		towers[i].gateway = daemontest.StartIn(t, towers[i].src, nil)
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

// A rotated token that one replica stores must not make other replicas refresh, too, and so on for
// ever.
//
// Real time: replicas poll the database every few seconds, and that they do nothing is what is
// tested.
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
	made := daemontest.Send(t, a.gateway, "/v1/responses", `{"model":"gemini-3-flash","input":"[[text: hello]]"}`)
	id, _ := made["id"].(string)
	resp, err := daemontest.Client.Get(b.gateway.URL() + "/v1/responses/" + id)
	if err != nil {
		t.Fatal(err)
	}
	if body := daemontest.Rest(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(body, "hello") {
		t.Errorf("got %d: %s", resp.StatusCode, body)
	}
	await.Until(t, "the other replica counts the call", func() bool {
		resp, err := daemontest.Client.Get(b.gateway.URL() + "/v1/usage")
		return err == nil && strings.Contains(daemontest.Rest(t, resp), `"calls":1`)
	})
}

// The open calls of a replica that is alive are left alone by other replicas, also when another one
// starts.
func TestReplicaThatStartsLeavesOpenCallsAlone(t *testing.T) {
	t.Parallel()
	address := dbtest.Postgres(t)
	stage := daemontest.NewStage(t)
	text := stage.Config(daemontest.StoreConfig(address, daemontest.NewSealKey()))
	first := daemontest.Start(t, text, nil)
	resp := daemontest.OpenStream(t, first, "")
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
	daemontest.Start(t, text, nil)
	if !is(perigee.OutcomeOpen) {
		t.Error("the second replica cut off the call of the first")
	}
	close(stage.GoOn)
	daemontest.Rest(t, resp)
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
	loaded.Config.Store.SealKey = perigee.NewSecret(daemontest.NewSealKey())
	loaded.Config.DataDir = daemontest.DataDir(t)
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

func TestCallsAreAnsweredWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	direct := dbtest.Postgres(t)
	w, through := daemontest.NewWire(t, direct)
	stage := daemontest.NewStage(t)
	close(stage.GoOn)
	g := daemontest.Start(t, stage.Config(daemontest.StoreConfig(through, daemontest.NewSealKey())), nil)
	if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	w.Set(true)
	for range 5 {
		if got := daemontest.Status(t, g, daemontest.Streaming, ""); got != http.StatusOK {
			t.Errorf("without the database a call gets %d", got)
		}
	}
	w.Set(false)
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
