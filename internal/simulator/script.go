package simulator

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Script is the content of a script file: accounts, switches and faults. A JSON document of
// the same shape is a script too, because JSON is YAML.
type Script struct {
	// Accounts replace the default accounts when there is at least one.
	Accounts []Account `yaml:"accounts"`
	// Keys are the keys of the official API, each the key alone or name, key and limits; none: any
	// key will do.
	Keys []APIKey `yaml:"keys"`
	// Models change single entries of the model table, by id.
	Models map[string]ModelOverride `yaml:"models"`
	// Switches set disputed behaviour by name, for example accept_thinking_level: false.
	Switches map[string]any `yaml:"switches"`
	// RotateRefreshTokens makes every refresh answer with a new refresh token; the old one is good
	// for one more use.
	RotateRefreshTokens bool `yaml:"rotate_refresh_tokens"`
	// OAuthErrors is the shape of token errors: "oauth" (default) or "google".
	OAuthErrors string `yaml:"oauth_errors"`
	// MinVersion is the oldest client version that is served.
	MinVersion string `yaml:"min_version"`
	// Faults go wrong in the order given: the first that matches a call and has something left is
	// used.
	Faults []Fault `yaml:"faults"`
}

// ModelOverride restricts the accounts that may use a model.
type ModelOverride struct {
	MinVersion string   `yaml:"min_version"` // clients older than this get 404
	Accounts   []string `yaml:"accounts"`    // emails that have it; empty for all
}

// LoadScript reads a script. The error lists all mistakes with their positions, one per line:
// unknown keys, faults, models and switches with the nearest known name, and malformed values.
func LoadScript(r io.Reader) (*Script, error) {
	script := &Script{}
	err := decodeStrict(r, script)
	return script, errors.Join(err, report(script.mistakes()))
}

// Duration is a time.Duration written as "50ms" or "1h16m0.5s" in scripts and JSON.
type Duration time.Duration

func (d *Duration) UnmarshalYAML(node *yaml.Node) error {
	parsed, err := time.ParseDuration(node.Value)
	if err != nil {
		return misread(node, "%q is not a duration such as 50ms", node.Value)
	}
	*d = Duration(parsed)
	return nil
}

func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// CallRange is which matching calls a fault is for: 3, or "2-4", or "5-" (from the fifth on); the
// first call is 1.
type CallRange struct {
	From, To int // without end if To is 0
}

func (c *CallRange) UnmarshalYAML(node *yaml.Node) error {
	from, to, dashed := strings.Cut(node.Value, "-")
	var err error
	if c.From, err = strconv.Atoi(strings.TrimSpace(from)); err == nil {
		switch to = strings.TrimSpace(to); {
		case !dashed:
			c.To = c.From
		case to != "":
			c.To, err = strconv.Atoi(to)
		}
	}
	if err != nil || c.From < 1 || (c.To != 0 && c.To < c.From) {
		return misread(node, "call %q is neither a number nor a range such as 2-4", node.Value)
	}
	return nil
}

func (c CallRange) MarshalText() ([]byte, error) {
	switch {
	case c.From == c.To:
		return strconv.AppendInt(nil, int64(c.From), 10), nil
	case c.To == 0:
		return fmt.Appendf(nil, "%d-", c.From), nil
	}
	return fmt.Appendf(nil, "%d-%d", c.From, c.To), nil
}

func (c CallRange) has(n int) bool { return n >= c.From && (c.To == 0 || n <= c.To) }
