package simulator

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"
)

// APIKey is a key of the official API and of the APIs of other providers. In a script it may be written as the key alone, which then
// is its name, too.
type APIKey struct {
	// Name identifies the key in faults and in the list of calls; the key itself if empty.
	Name string `yaml:"name" json:"name"`
	Key  string `yaml:"key" json:"-"`
	// Organization is the owner of the key. Encrypted reasoning and stored responses are bound to it.
	// The name of the key if empty.
	Organization string    `yaml:"organization" json:"organization,omitempty"`
	Limits       KeyLimits `yaml:"limits" json:"limits"`
}

// KeyLimits are the requests that a key may make of each model; 0 means no limit.
type KeyLimits struct {
	PerMinute int `yaml:"per_minute" json:"per_minute,omitempty"`
	PerDay    int `yaml:"per_day" json:"per_day,omitempty"`
}

// UnmarshalYAML takes a word or a mapping.
func (k *APIKey) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*k = APIKey{Key: node.Value}
	} else {
		type plain APIKey
		if err := node.Decode((*plain)(k)); err != nil {
			return err
		}
	}
	if k.Key == "" {
		return misread(node, "an API key is empty")
	}
	return nil
}

// apiKey is an APIKey with its usage.
type apiKey struct {
	APIKey
	models map[string]*keyUse
}

// keyUse is the usage of one model with a key.
type keyUse struct {
	recent []time.Time // requests of the last minute
	day    window
}

func newKeys(given []APIKey) ([]*apiKey, error) {
	var keys []*apiKey
	for _, k := range given {
		if k.Name == "" {
			k.Name = k.Key
		}
		switch {
		case k.Key == "":
			return nil, errors.New("simulator: an API key is empty")
		case slices.ContainsFunc(keys, func(other *apiKey) bool { return other.Key == k.Key || other.Name == k.Name }):
			return nil, fmt.Errorf("simulator: API key %s is listed twice", k.Name)
		}
		keys = append(keys, &apiKey{APIKey: k, models: map[string]*keyUse{}})
	}
	return keys, nil
}

// keyOf returns the key that a client sent, or nil if it is not configured.
func (d *directory) keyOf(sent string) *apiKey {
	for _, k := range d.keys {
		if k.Key == sent {
			return k
		}
	}
	return nil
}

// sentKey returns the API key of a request, in the header or in the query.
func (x *exchange) sentKey() string {
	if x.wire != nil {
		return x.wire.key(x.r)
	}
	if key := x.r.Header.Get("X-Goog-Api-Key"); key != "" {
		return key
	}
	return x.r.URL.Query().Get("key")
}

// knownKey finds the key of the request. It returns false if the key is not one of the configured
// keys; when none are configured, every key is known.
func (x *exchange) knownKey(sent string) bool {
	x.key = x.people.keyOf(sent)
	return x.key != nil || len(x.people.keys) == 0
}

// checkKey wants an API key: one of those that are configured, or any when none are.
func (x *exchange) checkKey() *statusError {
	sent := x.sentKey()
	if sent == "" {
		return refuse(http.StatusForbidden, "PERMISSION_DENIED", "auth.key",
			"Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.")
	}
	if x.knownKey(sent) {
		return nil
	}
	e := invalid("auth.key", "API key not valid. Please pass a valid API key.")
	e.Details = []any{
		errorInfo("API_KEY_INVALID", publicDomain, map[string]string{"service": "generativelanguage.googleapis.com"}),
		map[string]any{"@type": "type.googleapis.com/google.rpc.LocalizedMessage", "locale": "en-US",
			"message": "API key not valid. Please pass a valid API key."},
	}
	return e
}

// spendKey takes one request out of the quota of a key for a model, or returns the refusal.
func (d *directory) spendKey(k *apiKey, model string, now time.Time) *statusError {
	if k == nil {
		return nil // any key will do, and none is counted
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	use := k.models[model]
	if use == nil {
		use = &keyUse{day: window{name: "day", length: 24 * time.Hour, limit: k.Limits.PerDay}}
		k.models[model] = use
	}
	use.day.roll(now)
	use.recent = slices.DeleteFunc(use.recent, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	var e *statusError
	switch minute := k.Limits.PerMinute; {
	case k.Limits.PerDay > 0 && use.day.empty():
		e = officialExhausted(model, "PerDay", use.day.resetAt(now).Sub(now))
		e.Rule, e.Delay = "quota.per_day", use.day.resetAt(now).Sub(now)
	case minute > 0 && len(use.recent) >= minute:
		delay := use.recent[len(use.recent)-minute].Add(time.Minute).Sub(now)
		e = officialExhausted(model, "PerMinute", delay)
		e.Rule, e.Delay = "quota.per_minute", delay
	default:
		use.day.use(now)
		use.recent = append(use.recent, now)
	}
	return e
}
