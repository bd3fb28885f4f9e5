package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// Where perigee is and what opens it; see the driver.
var (
	simulated  = os.Getenv("PERIGEE_SIMULATED")
	watched    = os.Getenv("PERIGEE_WATCHED")
	witness    = os.Getenv("PERIGEE_WITNESS")
	shaky      = os.Getenv("PERIGEE_SHAKY")
	key        = os.Getenv("PERIGEE_KEY")
	limitedKey = os.Getenv("PERIGEE_LIMITED_KEY")
	picture    = os.Getenv("PERIGEE_PICTURE")
)

// Gemini 3 refuses a call that comes back without its signature, Claude text that is empty.
const (
	model   = "gemini-3-flash"
	older   = "gemini-2.5-pro"
	claude  = "claude-sonnet-4-6"
	spent   = "gemini-2.5-flash-lite" // its quota is used up, at watched
	missing = "gemini-3-flsh"
)

// slowly, behind a prompt, has the answer come in two pieces, with a silence in between that
// perigee fills with a sign of life.
const slowly = "[[chunks: 2]] [[pace: 1300ms]]"

// newToken is what only the other side can know, so that an answer which holds it must have come
// from there.
func newToken() string { return "tok" + rand.Text() }

func holds(text, wanted string) error {
	if !strings.Contains(text, wanted) {
		return fmt.Errorf("the answer %q does not hold %q", text, wanted)
	}
	return nil
}

// A vault is the tool of all loops; SDKs may open it from several goroutines.
type vault struct {
	mu   sync.Mutex
	held map[string]string
}

const (
	vaultName  = "open_vault"
	vaultAbout = "Opens a vault and says what is in it."
	openOne    = `[[think: which vault]] [[call: open_vault {"vault": "north", "floor": 3}]]`
	openTwo    = `[[call: open_vault {"vault": "north"}]] [[call: open_vault {"vault": "south"}]]`
)

var vaultProperties = map[string]any{
	"vault": map[string]any{"type": "string"},
	"floor": map[string]any{"type": "integer", "minimum": 0, "maximum": 9},
}

func vaultSchema() map[string]any {
	return map[string]any{"type": "object", "properties": vaultProperties, "required": []string{"vault"}, "additionalProperties": false}
}

type vaultInput struct {
	Vault string `json:"vault"`
	Floor int    `json:"floor"`
}

func (v *vault) open(name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil {
		v.held = map[string]string{}
	}
	v.held[name] = newToken()
	return fmt.Sprintf("in %s is %s", name, v.held[name])
}

func (v *vault) openJSON(arguments string) (string, error) {
	var input vaultInput
	if err := json.Unmarshal([]byte(arguments), &input); err != nil {
		return "", fmt.Errorf("the tool was called with %q: %w", arguments, err)
	}
	return v.open(input.Vault), nil
}

// quoted checks that a final text says what was in each vault, in the order of the calls.
func (v *vault) quoted(text string, names ...string) error {
	if len(v.held) != len(names) {
		return fmt.Errorf("%d vaults were opened, not %d", len(v.held), len(names))
	}
	rest := text
	for _, name := range names {
		_, after, found := strings.Cut(rest, "in "+name+" is "+v.held[name])
		if !found {
			return fmt.Errorf("the answer %q does not quote %s (%s) in its place", text, name, v.held[name])
		}
		rest = after
	}
	return nil
}

// promptly runs a call with a library that retries as often as it does by default. The quota that
// it asks for resets in an hour, and the library must not wait for that.
func promptly(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := call(ctx)
	if ctx.Err() != nil {
		return fmt.Errorf("the library still waits after 30 seconds: %w", err)
	}
	return err
}

// pictureArrived asks the witness whether the provider was sent the picture.
func pictureArrived(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, witness+"/picture", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s", said)
	}
	return nil
}
