package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"perigee/internal/testing/testenv"
)

// What is asked of several replicas on one PostgreSQL database, by the names that stand in the
// report.
const (
	contractSuite  = "contract suite"
	sharedAccounts = "accounts of one are used by the other"
	sharedMemory   = "signatures and responses of one are known to the other"
	rotationStorm  = "a storm of rotated tokens leaves one that is good"
	replicaEnds    = "a replica ends in the middle of 200 calls"
	replicaKilled  = "a replica is killed in the middle of 200 calls"
)

// teams is no client but what stands behind many of them.
func teams() []client {
	return []client{{
		name: "two replicas on postgresql", version: testenv.PostgresVersion(), install: postgresInstall,
		scenarios: []string{contractSuite, sharedAccounts, sharedMemory, rotationStorm, replicaEnds, replicaKilled},
		together:  true, // it mostly waits for its database
		run:       runTeam,
	}}
}

func runTeam(ctx context.Context, s *stage, c client, r *report) {
	t, err := newTeam(ctx, s)
	if err != nil {
		r.addAll(c, err)
		return
	}
	defer t.close()
	for _, scenario := range c.scenarios {
		limited, cancel := context.WithTimeout(ctx, 10*time.Minute)
		r.add(c, scenario, t.scenario(limited, scenario, r.out))
		cancel()
	}
}

// A team is two replicas, what they share, and the processes in front of and behind them.
type team struct {
	stage    *stage
	database *database
	provider string
	ledger   *ledger
	replicas [2]*replica
	sealKey  string
	started  int
}

// A replica is one perigee of the team.
type replica struct {
	name    string
	config  string
	url     string
	process *process
}

const providerScript = `
rotate_refresh_tokens: true
accounts:
  - {email: ada@example.com, refresh_token: sim-refresh-ada, project: sim-project-ada, tier: free-tier, limits: {five_hour: -1, weekly: -1}}
`

const teamConfig = `
store: {url: %q, seal_key: %q}
upstreams:
  - name: gravity
    kind: antigravity
    accept_terms_risk: true
    endpoints: [%[3]s]
    pools: [antigravity]
    oauth: {auth_url: %[3]s/o/oauth2/v2/auth, token_url: %[3]s/token, userinfo_url: %[3]s/oauth2/v2/userinfo, client_id: id, client_secret: secret-of-the-client}
`

func newTeam(ctx context.Context, s *stage) (_ *team, err error) {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw)
	t := &team{stage: s, sealKey: base64.StdEncoding.EncodeToString(raw)}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if t.database, err = startDatabase(ctx); err != nil {
		return nil, err
	}
	script := filepath.Join(s.dir, "team-script.yaml")
	if err := os.WriteFile(script, []byte(providerScript), 0o600); err != nil {
		return nil, err
	}
	if t.provider, err = s.start(ctx, "team-provider", s.binary, "simulate", "--listen", "127.0.0.1:0", "--script", script); err != nil {
		return nil, err
	}
	if t.ledger, err = newLedger(t.provider); err != nil {
		return nil, err
	}
	return t, t.fill(ctx)
}

// fill starts the replicas that are missing; those that start together find an empty database
// together.
func (t *team) fill(ctx context.Context) error {
	for i := range t.replicas {
		if t.replicas[i] != nil {
			continue
		}
		t.started++
		name := fmt.Sprintf("replica-%d", t.started)
		config := filepath.Join(t.stage.dir, name+".yaml")
		text := fmt.Sprintf(teamConfig, t.database.URL("perigee"), t.sealKey, t.ledger.url)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		p, err := t.stage.launch(ctx, name, t.stage.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
		if err != nil {
			return err
		}
		t.replicas[i] = &replica{name, config, p.address, p}
	}
	return nil
}

func (t *team) close() {
	for _, r := range t.replicas {
		if r != nil {
			r.process.stop()
		}
	}
	if t.ledger != nil {
		t.ledger.close()
	}
	if t.database != nil {
		t.database.Stop()
	}
}

func (t *team) scenario(ctx context.Context, name string, out io.Writer) error {
	if name == contractSuite {
		return t.contract(ctx)
	}
	if err := t.fill(ctx); err != nil {
		return err
	}
	if err := t.signIn(ctx); err != nil {
		return err
	}
	switch name {
	case sharedAccounts:
		return t.accountsTravel(ctx)
	case sharedMemory:
		return t.memoryTravels(ctx)
	case rotationStorm:
		return t.rotate(ctx, out)
	case replicaEnds:
		return t.end(ctx, out, false)
	case replicaKilled:
		return t.end(ctx, out, true)
	}
	return fmt.Errorf("there is no scenario %q", name)
}

// contract runs every test that can ask for a PostgreSQL server. The other tests of these packages
// have no part in it.
func (t *team) contract(ctx context.Context) error {
	packages, err := packagesOnPostgres(".")
	if err != nil {
		return err
	}
	var tests []string
	for _, name := range packages {
		found, err := testsOnPostgres(filepath.FromSlash(name))
		if err != nil {
			return err
		}
		tests = append(tests, found...)
	}
	args := append([]string{"test", "-vet=off", "-count=1", "-run", "^(" + strings.Join(tests, "|") + ")$"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "PERIGEE_TEST_POSTGRES="+t.database.URL("tests"))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, lastBytes(string(output), 3000))
	}
	return nil
}

// packagesOnPostgres lists the packages of a tree that have such tests.
func packagesOnPostgres(root string) (packages []string, err error) {
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if name := "./" + filepath.ToSlash(dir); bytes.Contains(text, []byte("dbtest.Postgres")) && !slices.Contains(packages, name) {
			packages = append(packages, name)
		}
		return err
	})
	if err == nil && len(packages) == 0 {
		err = errors.New("no test asks for a PostgreSQL server")
	}
	return packages, err
}

// testsOnPostgres names the tests in a directory that ask for a PostgreSQL server, or mention by
// name a function, method, type or variable of its tests that does. A name counts wherever it
// occurs, so that a test may be named without need, but none is left out.
func testsOnPostgres(dir string) (tests []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	mentions := map[string]map[string]bool{} // what the declarations of a name mention
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			for name, node := range declared(d) {
				if mentions[name] == nil {
					mentions[name] = map[string]bool{}
				}
				ast.Inspect(node, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						mentions[name][id.Name] = true
					}
					return true
				})
			}
		}
	}
	asks := map[string]bool{"Postgres": true, "PostgresServer": true} // of dbtest
	for more := true; more; {
		more = false
		for name, mentioned := range mentions {
			for other := range mentioned {
				if asks[other] && !asks[name] {
					asks[name], more = true, true
				}
			}
		}
	}
	for name := range asks {
		if strings.HasPrefix(name, "Test") && mentions[name] != nil {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests, nil
}

// declared yields the names that a declaration gives, each with its part of the source.
func declared(d ast.Decl) iter.Seq2[string, ast.Node] {
	return func(yield func(string, ast.Node) bool) {
		switch d := d.(type) {
		case *ast.FuncDecl:
			yield(d.Name.Name, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if !yield(spec.Name.Name, spec) {
						return
					}
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						if !yield(name.Name, spec) {
							return
						}
					}
				}
			}
		}
	}
}

// signIn gives the first replica the account, by command, unless it has one.
func (t *team) signIn(ctx context.Context) error {
	have, err := t.database.number(ctx, "SELECT count(*) FROM accounts")
	if err != nil || have > 0 {
		return err
	}
	file := filepath.Join(t.stage.dir, "accounts.json")
	if err := os.WriteFile(file, []byte(`[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"}]`), 0o600); err != nil {
		return err
	}
	r := t.replicas[0]
	cmd := exec.CommandContext(ctx, t.stage.binary, "account", "import", "--config", r.config, file)
	home := filepath.Join(t.stage.dir, r.name)
	cmd.Env = []string{"HOME=" + home, "PERIGEE_DATA_DIR=" + filepath.Join(home, "data")}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("perigee account import: %w: %s", err, output)
	}
	return nil
}

// post asks a replica and returns its answer.
func post(ctx context.Context, url, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	return resp.StatusCode, said, err
}

func mustPost(ctx context.Context, url, body string) ([]byte, error) {
	status, said, err := post(ctx, url, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", url, status, lastBytes(string(said), 500))
	}
	return said, err
}

const chatPath = "/v1/chat/completions"

func chat(text string) string {
	encoded, _ := json.Marshal(text) // a string
	return fmt.Sprintf(`{"model":"gemini-3-flash","messages":[{"role":"user","content":%s}]}`, encoded)
}

func (t *team) accountsTravel(ctx context.Context) error {
	if _, err := mustPost(ctx, t.replicas[0].url+chatPath, chat("hello")); err != nil {
		return err
	}
	return eventually(ctx, 15*time.Second, "the other replica answers with the account", func() bool {
		status, _, err := post(ctx, t.replicas[1].url+chatPath, chat("hello"))
		return err == nil && status == http.StatusOK
	})
}

// calledTool returns the ID of the first tool call in a Chat answer.
func calledTool(answer []byte) (id string, err error) {
	var called struct {
		Choices []struct {
			Message struct {
				Calls []struct{ ID string } `json:"tool_calls"`
			}
		}
	}
	if err := json.Unmarshal(answer, &called); err != nil || len(called.Choices) == 0 || len(called.Choices[0].Message.Calls) == 0 {
		return "", fmt.Errorf("no tool call in %s (%v)", answer, err)
	}
	return called.Choices[0].Message.Calls[0].ID, nil
}

func (t *team) memoryTravels(ctx context.Context) error {
	const declared = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"at":{"type":"string"}}}}}]`
	const ask = `{"role":"user","content":"[[think: where]] [[call: look {\"at\":\"here\"}]]"}`
	said, err := mustPost(ctx, t.replicas[0].url+chatPath, `{"model":"gemini-3-flash",`+declared+`,"messages":[`+ask+`]}`)
	if err != nil {
		return err
	}
	id, err := calledTool(said)
	if err != nil {
		return err
	}
	// The client has kept nothing but what its dialect has a place for everywhere.
	turn := fmt.Sprintf(`{"role":"assistant","tool_calls":[{"id":%[1]q,"type":"function","function":{"name":"look","arguments":"{\"at\":\"here\"}"}}]},{"role":"tool","tool_call_id":%[1]q,"content":"found"}`, id)
	if _, err := mustPost(ctx, t.replicas[1].url+chatPath, `{"model":"gemini-3-flash",`+declared+`,"messages":[`+ask+`,`+turn+`]}`); err != nil {
		return err
	}
	if err := t.ledger.signatureReturned(); err != nil {
		return err
	}
	said, err = mustPost(ctx, t.replicas[0].url+"/v1/responses", `{"model":"gemini-3-flash","input":"[[text: kept]]"}`)
	if err != nil {
		return err
	}
	var made struct{ ID string }
	if err := json.Unmarshal(said, &made); err != nil {
		return err
	}
	resp, err := http.Get(t.replicas[1].url + "/v1/responses/" + made.ID)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(read, []byte("kept"))) {
		err = fmt.Errorf("the other replica says %d about the response: %s", resp.StatusCode, read)
	}
	return err
}

// rotate ends all access tokens again and again while calls come to both replicas.
func (t *team) rotate(ctx context.Context, out io.Writer) error {
	const rounds, calls = 10, 20
	before, _ := t.ledger.usedTwice()
	for range rounds {
		if _, err := mustPost(ctx, t.provider+"/simulator/clock", `{"advance":"2h"}`); err != nil {
			return err
		}
		errs := make([]error, calls)
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() { _, errs[i] = mustPost(ctx, t.replicas[i%2].url+chatPath, chat("hello")) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	after, err := t.ledger.usedTwice()
	fmt.Fprintf(out, "      %d refreshes in %d rounds of %d calls to two replicas, each with a token of its own\n", after-before, rounds, calls)
	if err == nil && after-before < rounds {
		err = fmt.Errorf("only %d refreshes: the tokens did not end", after-before)
	}
	return err
}
