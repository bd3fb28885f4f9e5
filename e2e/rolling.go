package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"perigee/internal/testing/testenv"
)

const (
	rollingThere = "replicas are replaced one after the other, and back"
	newerNeeded  = "a database that needs a newer version is refused"
)

// rollingUpgrades are two replicas on PostgreSQL, of which one is older for a while.
func rollingUpgrades() []client {
	commit := olderVersions[0]
	return []client{{
		name: "rolling upgrade from " + commit, version: testenv.PostgresVersion(), install: postgresInstall, older: commit,
		scenarios: []string{rollingThere, newerNeeded}, together: true,
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			u := &rollingUpgrade{stage: s, older: olderBinary(commit)}
			defer u.close()
			if err := u.start(ctx); err != nil {
				r.addAll(c, err)
				return
			}
			for _, scenario := range c.scenarios {
				if scenario == rollingThere {
					r.add(c, scenario, u.roll(ctx, func(text string) { r.say(c, scenario, text) }))
				} else {
					r.add(c, scenario, u.refuse(ctx))
				}
			}
		},
	}}
}

// A rollingUpgrade is two replicas behind a balancer.
type rollingUpgrade struct {
	stage    *stage
	older    string
	database *database
	config   string
	balancer *balancer
	replicas [2]*rolled
	keys     int // with a limit, that were used
}

// A rolled replica keeps its address and its directory when its version changes.
type rolled struct {
	name    string
	process *process
	binary  string
}

// limitedKeys is how many keys there are with rpm: rollingLimit.
const (
	limitedKeys  = 4
	rollingLimit = 10
)

func (u *rollingUpgrade) start(ctx context.Context) (err error) {
	if u.database, err = startDatabase(ctx); err != nil {
		return err
	}
	seal, err := output(ctx, ".", nil, "openssl", "rand", "-base64", "32")
	if err != nil {
		return err
	}
	text, err := installationConfig(u.stage.simulator)
	if err != nil {
		return err
	}
	text = fmt.Sprintf("store: {url: %q, seal_key: %q}\n", u.database.URL("perigee"), strings.TrimSpace(seal)) + text
	keys := ""
	for i := range limitedKeys {
		keys += fmt.Sprintf("  - {name: limited-%d, secret: limited-client-key-%[1]d, rpm: %d}\n", i, rollingLimit)
	}
	text = strings.Replace(text, "upstreams:\n", keys+"upstreams:\n", 1)
	u.config = filepath.Join(u.stage.dir, "rolling.yaml")
	if err := os.WriteFile(u.config, []byte(text), 0o600); err != nil {
		return err
	}
	for i := range u.replicas {
		u.replicas[i] = &rolled{name: fmt.Sprint("rolling-", i)}
		if err := u.replace(ctx, i, u.older); err != nil {
			return err
		}
	}
	file := filepath.Join(u.stage.dir, "rolling-accounts.json")
	const accounts = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"}]`
	if err := os.WriteFile(file, []byte(accounts), 0o600); err != nil {
		return err
	}
	if _, err := u.command(ctx, 0, "account", "import", file); err != nil {
		return err
	}
	u.balancer, err = newBalancer(u.replicas[0].process.address, u.replicas[1].process.address)
	return err
}

func (u *rollingUpgrade) close() {
	if u.balancer != nil {
		u.balancer.close()
	}
	for _, r := range u.replicas {
		if r != nil && r.process != nil {
			r.process.stop()
		}
	}
	if u.database != nil {
		u.database.Stop()
	}
}

// replace ends a replica, after its open calls, and starts another version at its address.
func (u *rollingUpgrade) replace(ctx context.Context, i int, binary string) (err error) {
	r, listen := u.replicas[i], "127.0.0.1:0"
	if r.process != nil {
		listen = strings.TrimPrefix(r.process.address, "http://")
		r.process.end(syscall.SIGTERM)
	}
	r.binary = binary
	r.process, err = u.stage.launch(ctx, r.name, binary, "serve", "--config", u.config, "--listen", listen)
	return err
}

// command runs a command of the version of a replica beside it.
func (u *rollingUpgrade) command(ctx context.Context, i int, args ...string) ([]byte, error) {
	r := u.replicas[i]
	in := &installation{stage: u.stage, config: u.config, data: filepath.Join(u.stage.dir, r.name, "data")}
	return in.command(ctx, r.binary, args...)
}

// A dialectCall is a call of a client that streams, and the mark of a complete answer.
type dialectCall struct{ path, body, end string }

func rollingCalls(text string) []dialectCall {
	text = "[[text: " + text + "]] [[chunks: 1]]"
	return []dialectCall{
		{chatPath, `{"model":"gemini-3-flash","stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`, "data: [DONE]"},
		{"/v1/messages", `{"model":"claude-sonnet-4-6","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"` + text + `"}]}`, "message_stop"},
		{"/v1/responses", `{"model":"gemini-3-flash","stream":true,"input":"` + text + `"}`, "response.completed"},
		{streamPath, `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}`, `"finishReason":"STOP"`},
	}
}

// A rollingLoad is clients of all dialects that call without a pause.
type rollingLoad struct {
	made atomic.Int64 // calls with a complete answer
	mu   sync.Mutex
	errs []error
}

func (l *rollingLoad) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < 10 {
		l.errs = append(l.errs, err)
	}
}

// run calls until ctx ends; a call that has begun is finished.
func (u *rollingUpgrade) run(ctx context.Context, l *rollingLoad, client int) {
	for i := 0; ctx.Err() == nil; i++ {
		word := fmt.Sprintf("answer-%d-%d", client, i)
		c := rollingCalls(word)[client%4]
		answer, err := u.ask(context.WithoutCancel(ctx), u.balancer.url, installationKey, c.path, c.body)
		switch {
		case err != nil:
			l.fail(fmt.Errorf("%s: %w", c.path, err))
		case !strings.Contains(answer, c.end) || !strings.Contains(answer, word):
			l.fail(fmt.Errorf("%s: not a complete answer: %s", c.path, lastBytes(answer, 300)))
		default:
			l.made.Add(1)
		}
	}
}

func (u *rollingUpgrade) ask(ctx context.Context, base, key, path, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	in := &installation{daemon: &process{address: base}, kept: kept{Calls: map[string]row{}}, key: key}
	answer, err := in.do(ctx, http.MethodPost, path, body)
	return string(answer), err
}

// roll replaces the replicas one after the other while clients call, and goes back in the same way.
func (u *rollingUpgrade) roll(ctx context.Context, say func(string)) error {
	if err := eventually(ctx, 15*time.Second, "both replicas have the accounts", func() bool {
		return !slices.ContainsFunc(u.replicas[:], func(r *rolled) bool {
			// Not a stream: those are counted.
			_, err := u.ask(ctx, r.process.address, installationKey, "/v1/messages",
				`{"model":"claude-sonnet-4-6","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`)
			return err != nil
		})
	}); err != nil {
		return err
	}
	began := time.Now()
	calling, stop := context.WithCancel(ctx)
	defer stop()
	load := &rollingLoad{}
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() { u.run(calling, load, i) })
	}
	newer := u.stage.binary
	var err error
	for step, change := range []struct {
		replica int
		binary  string
	}{{0, newer}, {1, newer}, {0, u.older}, {1, u.older}, {1, newer}} {
		if err = u.replace(ctx, change.replica, change.binary); err == nil {
			err = u.shared(ctx)
		}
		if want := load.made.Load() + 40; err == nil {
			err = eventually(ctx, time.Minute, "clients have made 40 more calls", func() bool { return load.made.Load() >= want })
		}
		if err != nil {
			err = fmt.Errorf("after change %d of the replicas: %w", step+1, err)
			break
		}
	}
	stop()
	clients.Wait()
	if err := errors.Join(append([]error{err}, load.errs...)...); err != nil {
		return err
	}
	if err := u.counted(ctx, load); err != nil {
		return err
	}
	say(fmt.Sprintf("%d calls in %.0f s, %d of them answered by the other replica", load.made.Load(), time.Since(began).Seconds(), u.balancer.moved.Load()))
	return nil
}

// shared expects that both replicas have the same responses, accounts and, while no version comes
// and goes, the same limits.
func (u *rollingUpgrade) shared(ctx context.Context) error {
	for i := range u.replicas {
		here, there := u.replicas[i].process.address, u.replicas[1-i].process.address
		answer, err := u.ask(ctx, here, installationKey, "/v1/responses", `{"model":"gemini-3-flash","input":"[[text: kept]]"}`)
		if err != nil {
			return err
		}
		var response struct{ ID string }
		if err := json.Unmarshal([]byte(answer), &response); err != nil {
			return err
		}
		if _, err := u.ask(ctx, there, installationKey, "/v1/responses",
			`{"model":"gemini-3-flash","previous_response_id":"`+response.ID+`","input":"and then?"}`); err != nil {
			return fmt.Errorf("a response of the replica %s: %w", filepath.Base(u.replicas[i].binary), err)
		}
	}
	if err := u.accounts(ctx); err != nil {
		return err
	}
	if u.replicas[0].binary == u.replicas[1].binary || u.keys == limitedKeys {
		return nil
	}
	key := fmt.Sprint("limited-client-key-", u.keys)
	u.keys++
	for i := range rollingLimit + 2 {
		_, err := u.ask(ctx, u.replicas[i%2].process.address, key, chatPath, chat("hello"))
		if (err != nil) != (i >= rollingLimit) {
			return fmt.Errorf("request %d of a key with rpm: %d, to both replicas: %v", i+1, rollingLimit, err)
		}
	}
	return nil
}

// accounts changes an account with the command of each version, and expects that the other replica
// follows.
func (u *rollingUpgrade) accounts(ctx context.Context) error {
	const email = "bob@example.com"
	for i, act := range []string{"disable", "enable", "use"} {
		i %= 2
		if _, err := u.command(ctx, i, "account", act, email); err != nil {
			return err
		}
		type account struct {
			Email              string
			Enabled, Preferred bool
		}
		var list []account
		if err := eventually(ctx, 30*time.Second, "account "+act+" has reached the other replica", func() bool {
			text, err := u.command(ctx, 1-i, "account", "list", "--json")
			return err == nil && json.Unmarshal(text, &list) == nil && slices.ContainsFunc(list, func(a account) bool {
				return a.Email == email && a.Enabled == (act != "disable") && (act != "use" || a.Preferred)
			})
		}); err != nil {
			return fmt.Errorf("%w: %+v", err, list)
		}
	}
	_, err := u.command(ctx, 0, "account", "use", "ada@example.com")
	return err
}

// counted compares the calls that clients have made with the recorded ones, and with the sums.
func (u *rollingUpgrade) counted(ctx context.Context, load *rollingLoad) error {
	least := int(load.made.Load())
	most := least + int(u.balancer.sent.Load()) // a replica that ends may have begun them
	number := func(what string) (int, error) {
		return u.database.number(ctx, "SELECT "+what+" client_key = 'client'")
	}
	var recorded int
	var failed error
	if err := eventually(ctx, 15*time.Second, "all calls are recorded", func() bool {
		recorded, failed = number("count(*) FROM calls WHERE outcome = 'done' AND stream AND")
		return failed == nil && recorded >= least
	}); err != nil {
		return errors.Join(err, failed, fmt.Errorf("%d of %d calls", recorded, least))
	}
	if recorded > most {
		return fmt.Errorf("%d calls are recorded, and clients have made %d", recorded, least)
	}
	all, err := number("count(*) FROM calls WHERE outcome <> 'open' AND")
	if err != nil {
		return err
	}
	for _, column := range []string{"calls", "input_tokens", "output_tokens"} {
		sum, err := number("sum(" + column + ") FROM daily_usage WHERE")
		if err != nil {
			return err
		}
		want := all
		if column != "calls" {
			if want, err = number("sum(" + column + ") FROM calls WHERE outcome <> 'open' AND"); err != nil {
				return err
			}
		}
		if sum != want || sum == 0 {
			return fmt.Errorf("the sums have %d %s, the calls %d", sum, column, want)
		}
	}
	return nil
}

// refuse has the database say that it needs a newer version. The older one then does not start, and
// neither do its commands work, each with a next step that is true.
func (u *rollingUpgrade) refuse(ctx context.Context) error {
	for i := range u.replicas {
		u.replicas[i].process.end(syscall.SIGTERM)
		u.replicas[i].binary = u.older
	}
	if _, err := u.database.number(ctx, "WITH changed AS (UPDATE schema_version SET compatible_with = 16 WHERE version = 16 RETURNING 1) SELECT count(*) FROM changed"); err != nil {
		return err
	}
	for _, command := range []string{"serve --listen 127.0.0.1:0", "usage", "trace list", "account list", "store", "audit"} {
		said, err := u.command(ctx, 0, strings.Fields(command)...)
		if err == nil || !strings.Contains(err.Error(), "install that newer perigee") {
			return fmt.Errorf("%s on a database that needs a newer version: %v, %s", command, err, said)
		}
	}
	said, _ := u.command(ctx, 0, "doctor", "--json")
	var results []struct{ Check, Status, Detail, Fix string }
	if err := json.Unmarshal(said, &results); err != nil {
		return fmt.Errorf("doctor: %w: %s", err, said)
	}
	for _, r := range results {
		if r.Check != "store" {
			continue
		}
		if r.Status != "fail" || strings.Contains(r.Fix, ".before-") || r.Fix == "" {
			return fmt.Errorf("doctor: %+v", r)
		}
		return nil
	}
	return fmt.Errorf("doctor does not check the store: %s", said)
}
