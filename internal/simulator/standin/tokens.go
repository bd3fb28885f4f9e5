package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	unifiedstatesyncpb "perigee/gen/exa/unified_state_sync_pb"
)

// A token is an access token of the cloud. The zero expiry is none.
type token struct {
	access string
	expiry time.Time
}

// tokens reads the token from its source: a topic, a secret of the IDE, or a file.
type tokens struct {
	p *process

	mu         sync.Mutex
	current    token // of the topic, or of the file
	problem    error // why there is none
	enterprise bool  // the topic without which the token of the other is not used has answered
	said       string
}

func newTokens(p *process) *tokens {
	return &tokens{p: p, problem: fmt.Errorf("no initial state of %s yet", oauthTopic)}
}

// see takes in the rows of a topic.
func (t *tokens) see(topic string, rows map[string]*unifiedstatesyncpb.Row) {
	if topic != oauthTopic && topic != enterpriseTopic {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if topic == enterpriseTopic {
		t.enterprise = true
		return
	}
	before := t.current
	t.current, t.problem = readToken(rows)
	switch {
	case t.problem != nil:
		t.p.log.error("unified state sync: topic %s: %v", topic, t.problem)
	case t.current != before:
		t.p.log.info("received OAuth token info, expiry %s", t.current.expiry.UTC().Format(time.RFC3339))
	}
}

// errCredentials is the reason of all calls that need a token and have none.
var errCredentials = errors.New("CREDENTIALS_MISSING: the request is missing a valid OAuth token")

// bearer returns the token for the next call.
func (t *tokens) bearer(ctx context.Context) (string, error) {
	found, err := t.find(ctx)
	if err == nil && !found.expiry.IsZero() && time.Now().After(found.expiry) {
		err = fmt.Errorf("the OAuth token expired at %s", found.expiry.UTC().Format(time.RFC3339))
	}
	if err == nil {
		return found.access, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err.Error() != t.said {
		t.said = err.Error()
		t.p.log.warn("not signed in: %v", err)
	}
	return "", fmt.Errorf("%w: %v", errCredentials, err)
}

func (t *tokens) find(ctx context.Context) (token, error) {
	switch {
	case t.p.generation == hub:
		return t.fromFile()
	case t.p.extension == nil:
		return token{}, errors.New("there is no extension server")
	case t.p.secret:
		value, err := t.p.extension.secretValue(ctx, "oauth_token")
		if err == nil && value == "" {
			err = errors.New("the secret oauth_token is empty")
		}
		return token{access: value}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.problem == nil && !t.enterprise {
		return token{}, fmt.Errorf("no initial state of %s yet", enterpriseTopic)
	}
	return t.current, t.problem
}

// tokenFile is the name of the hub's token file.
const tokenFile = "jetski-standalone-oauth-token"

// fromFile returns the token of the token file, which is read for each call, so that a new file
// takes effect at once. What the real one does is not known: with a fault, the first token is used
// until the end.
func (t *tokens) fromFile() (token, error) {
	_, once := t.p.faults.has("reads-token-once")
	t.mu.Lock()
	defer t.mu.Unlock()
	if once && t.current.access != "" {
		return t.current, nil
	}
	read, err := t.readFile()
	if err == nil {
		t.current = read
	}
	return read, err
}

func (t *tokens) readFile() (token, error) {
	text, err := os.ReadFile(filepath.Join(t.p.gemini, tokenFile))
	if errors.Is(err, fs.ErrNotExist) {
		return token{}, errors.New("sign in first: the token file does not exist")
	}
	if err != nil {
		return token{}, err
	}
	var file struct {
		Token *struct {
			AccessToken string    `json:"access_token"`
			TokenType   string    `json:"token_type"`
			Expiry      time.Time `json:"expiry"`
		} `json:"token"`
	}
	switch err := json.Unmarshal(text, &file); {
	case err != nil:
		return token{}, fmt.Errorf("failed to parse the token file: %w", err)
	case file.Token == nil || file.Token.AccessToken == "" || file.Token.TokenType != "Bearer":
		return token{}, errors.New("the token file has no token of type Bearer")
	}
	return token{file.Token.AccessToken, file.Token.Expiry}, nil
}
