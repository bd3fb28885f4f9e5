package simulator

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perigee/internal/simulator/rules"
)

// catalogue has the models with properties that only this package needs.
type catalogue struct {
	models     []rules.Model
	overrides  map[string]ModelOverride
	minVersion string
}

// The IDs that came with a newer client return 404 to an older one, and not an error about the
// version.
const newerClient = "2.9.0"

// oldestClient is the oldest version that is served; it is low enough to refuse only clients
// without a version.
const oldestClient = "1.0.0"

var minVersions = map[string]string{
	"gemini-3.7-flash-high": newerClient, "gemini-3.6-flash-high": newerClient, "gemini-pro-agent": newerClient,
	"gemini-3-flash-agent": newerClient, "gemini-3.5-flash-low": newerClient, "gemini-3.5-flash-extra-low": newerClient,
}

// The labels do not follow from the ids; see for example the three ids of 3.5 Flash.
var labels = map[string]string{
	"claude-opus-4-6-thinking": "Claude Opus 4.6 (Thinking)", "claude-sonnet-4-6": "Claude Sonnet 4.6 (Thinking)",
	"claude-sonnet-4-5": "Claude Sonnet 4.5", "gemini-3.7-flash-high": "Gemini 3.7 Flash", "gemini-3.6-flash-high": "Gemini 3.6 Flash",
	"gemini-3-flash-agent": "Gemini 3.5 Flash (High)", "gemini-3.5-flash-low": "Gemini 3.5 Flash (Medium)",
	"gemini-3.5-flash-extra-low": "Gemini 3.5 Flash (Low)", "gemini-pro-agent": "Gemini 3.1 Pro (High)",
	"gemini-3.1-pro-low": "Gemini 3.1 Pro (Low)", "gpt-oss-120b-medium": "GPT-OSS 120B (Medium)",
}

// deprecated are ids that the provider took away, with their successors.
var deprecated = map[string]string{"gemini-3-pro-high": "gemini-pro-agent", "gemini-3-pro-low": "gemini-3.1-pro-low"}

func label(id string) string {
	if name, ok := labels[id]; ok {
		return name
	}
	words := strings.Split(id, "-")
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}

func newCatalogue(script *Script) (catalogue, error) {
	c := catalogue{models: rules.ModelTable(), overrides: script.Models, minVersion: cmp.Or(script.MinVersion, oldestClient)}
	for id := range script.Models {
		if _, ok := c.find(id); !ok {
			return c, fmt.Errorf("simulator: there is no model %q to override", id)
		}
	}
	return c, nil
}

func (c catalogue) find(id string) (rules.Model, bool) {
	i := slices.IndexFunc(c.models, func(m rules.Model) bool { return m.ID == id })
	if i < 0 {
		return rules.Model{}, false
	}
	return c.models[i], true
}

// has reports whether the account has the model.
func (c catalogue) has(a *account, id string) bool {
	allowed := c.overrides[id].Accounts
	return (len(allowed) == 0 || slices.Contains(allowed, a.Email)) && (len(a.Models) == 0 || slices.Contains(a.Models, id))
}

// floor returns the oldest client version that gets the model.
func (c catalogue) floor(id string) string {
	if v := c.overrides[id].MinVersion; v != "" {
		return v
	}
	return minVersions[id]
}

var (
	agentVersion   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)antigravity/(?:hub/)?(\d+\.\d+\.\d+)`) })
	versionPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d+\.\d+\.\d+$`) })
)

func validVersion(v string) bool { return versionPattern().MatchString(v) }

// clientVersion reads the version out of a User-Agent; one that names none counts as the oldest
// there is.
func clientVersion(userAgent string) string {
	if match := agentVersion().FindStringSubmatch(userAgent); match != nil {
		return match[1]
	}
	return "0.0.0"
}

// olderThan compares two X.Y.Z versions; an empty floor is below everything.
func olderThan(version, floor string) bool {
	if floor == "" {
		return false
	}
	have, want := strings.Split(version, "."), strings.Split(floor, ".")
	for i := range want {
		h, _ := strconv.Atoi(have[i])
		w, _ := strconv.Atoi(want[i])
		if h != w {
			return h < w
		}
	}
	return false
}
