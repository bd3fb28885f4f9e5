package importcmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"perigee/internal/lib/netguard"
	"perigee/internal/store/config"
)

// A draft is a configuration of perigee, and the notes about it for the user.
type draft struct {
	file  file
	notes []string // settings without a counterpart, and secrets to be exported

	// copiesHeaders is set if $NAME in a header is a header of the client, which perigee does not copy.
	copiesHeaders bool
	// variables are values of secrets by the variables that they are expected in, empty if the file
	// names the variable.
	variables map[string]string
}

type file struct {
	Listen    string     `yaml:"listen,omitempty"`
	TLS       *tls       `yaml:"tls,omitempty"`
	Log       string     `yaml:"log,omitempty"`
	Keys      []key      `yaml:"keys,omitempty"`
	Proxy     string     `yaml:"proxy,omitempty"`
	Upstreams []upstream `yaml:"upstreams"`
	Models    models     `yaml:"models,omitempty"`
	Prices    []price    `yaml:"prices,omitempty"`
}

type tls struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

type key struct {
	Name   string `yaml:"name"`
	Secret string `yaml:"secret"`
}

// An upstream has every setting that a configuration of another program can lead to. Two upstreams
// with the same settings may be one.
type upstream struct {
	Name        string            `yaml:"name"`
	Kind        string            `yaml:"kind"`
	URL         string            `yaml:"url,omitempty"`
	Project     string            `yaml:"project,omitempty"`
	Location    string            `yaml:"location,omitempty"`
	Credentials string            `yaml:"credentials,omitempty"`
	Keys        []string          `yaml:"keys,omitempty,flow"`
	API         string            `yaml:"api,omitempty"`
	Profile     string            `yaml:"profile,omitempty"`
	Auth        string            `yaml:"auth,omitempty"`
	Spread      string            `yaml:"spread,omitempty"`
	Models      []string          `yaml:"models,omitempty,flow"`
	Headers     map[string]string `yaml:"headers,omitempty"`
	Set         map[string]any    `yaml:"set,omitempty"`
	Default     map[string]any    `yaml:"default,omitempty"`
	Proxy       string            `yaml:"proxy,omitempty"`
	Concurrency int               `yaml:"concurrency,omitempty"`
}

type models struct {
	Default string            `yaml:"default,omitempty"`
	Aliases map[string]string `yaml:"aliases,omitempty"`
	Routes  []route           `yaml:"routes,omitempty"`
}

type route struct {
	Match string    `yaml:"match"`
	When  condition `yaml:"when,omitempty,flow"`
	To    []string  `yaml:"to,omitempty,flow"`
	Model string    `yaml:"model,omitempty"`
}

type condition struct {
	InputTokens string `yaml:"input_tokens,omitempty"`
	Images      bool   `yaml:"images,omitempty"`
}

type price struct {
	Model  string  `yaml:"model"`
	Input  float64 `yaml:"input"`
	Cached float64 `yaml:"cached,omitempty"`
	Output float64 `yaml:"output"`
}

// newDraft returns a draft in which the variables that a document refers to are taken.
func newDraft(root entry) *draft {
	d := &draft{variables: make(map[string]string)}
	root.values(func(text string) {
		if variable := variableOf(text); variable != "" {
			d.variables[variable] = ""
		}
	})
	return d
}

// note adds a sentence about a setting.
func (d *draft) note(path, format string, args ...any) {
	d.notes = append(d.notes, path+": "+fmt.Sprintf(format, args...))
}

// variableOf returns the environment variable that a text refers to in one of the three programs, as
// os.environ/X, $X or ${X}, or "".
func variableOf(text string) string {
	name, isReference := strings.CutPrefix(text, "os.environ/")
	if !isReference {
		name, isReference = strings.CutPrefix(text, "$")
	}
	if inner, ok := strings.CutPrefix(name, "{"); ok {
		name = strings.TrimSuffix(inner, "}")
	}
	if !isReference || name == "" || strings.ToUpper(name) != variableName(name) {
		return ""
	}
	return name
}

// variableName makes the name of an environment variable of a text.
func variableName(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			return r
		}
		return '_'
	}, text)
}

// secret returns the reference for a secret: to the variable that the file names, or to a variable of
// the given name that a note asks for. It is "" for an empty secret.
func (d *draft) secret(e entry, name string) string {
	value := e.text()
	if value == "" {
		return ""
	}
	if variable := variableOf(value); variable != "" {
		d.variables[variable] = ""
		return "env:" + variable
	}
	if name = variableName(name); name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "KEY_" + name
	}
	unique := name
	for i := 2; ; i++ {
		known, taken := d.variables[unique]
		if taken && known == value {
			return "env:" + unique
		}
		if !taken {
			break
		}
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	d.variables[unique] = value
	d.note(e.path, "a secret; run export %s=… with its value before you start perigee", unique)
	return "env:" + unique
}

// plain returns a value that is not a secret. A reference to a variable is replaced by the value that
// the variable has here; if it has none, a note names it.
func (d *draft) plain(e entry) string {
	value := e.text()
	variable := variableOf(value)
	if variable == "" {
		return value
	}
	if value = os.Getenv(variable); value == "" {
		d.note(e.path, "the environment variable %s is not set here; set it and import the file again", variable)
	}
	return value
}

// base returns the address of an upstream. If there is none, or one with a secret in it, it adds a note
// and returns false.
func (d *draft) base(e entry) (string, bool) {
	base := d.plain(e)
	u, err := url.Parse(base)
	switch {
	case base == "":
		d.note(e.path, "left out: there is no address")
	case err != nil:
		d.note(e.path, "left out: it is not an address")
	case u.User != nil || u.RawQuery != "":
		d.note(e.path, "left out: perigee accepts no address with a password or a query")
	case slices.ContainsFunc(strings.Split(u.Path, "/"), config.LooksLikeKey):
		d.note(e.path, "left out: the path seems to have a key in it, which this command does not print; write the upstream by hand")
	default:
		return base, true
	}
	return "", false
}

// proxy returns the value of proxy for an address, which is a secret if it has a password.
func (d *draft) proxy(e entry) string {
	value := e.peek()
	switch u, err := url.Parse(value); {
	case value == "direct" || value == "none":
		e.done()
		return "none"
	case variableOf(value) != "" || err == nil && u.User != nil:
		return d.secret(e, "UPSTREAM_PROXY")
	}
	return e.text()
}

// headers adds the headers in a mapping to an upstream.
func (d *draft) headers(u *upstream, e entry) {
	for _, name := range e.keys() {
		item := e.get(name)
		value := item.peek()
		if value == "" || d.copiesHeaders && strings.HasPrefix(value, "$") {
			continue
		}
		if isOwn(name, u.Kind) {
			continue
		}
		if u.Headers == nil {
			u.Headers = make(map[string]string)
		}
		if variableOf(value) != "" || config.CredentialIn(value) != "" {
			u.Headers[name] = d.secret(item, name)
		} else {
			u.Headers[name] = item.text()
		}
	}
}

// isOwn reports whether perigee sets a header itself, or it has no valid name.
func isOwn(name, kind string) bool {
	u := upstream{Name: "probe", Kind: kind, URL: "https://example.com", Keys: []string{"env:KEY"}}
	without := refused(file{Upstreams: []upstream{u}})
	u.Headers = map[string]string{name: "value"}
	return without == "" && refused(file{Upstreams: []upstream{u}}) != ""
}

// listen returns the address to listen on, or "" if the port, which is from an entry, is none. An
// address that other machines can reach needs a key.
func (d *draft) listen(host string, from entry, port string) string {
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
		d.note(from.path, "left out: it is not a port")
		return ""
	}
	address := cmp.Or(strings.Trim(host, "[]"), "0.0.0.0")
	if !netguard.ListensOnLoopback(address+":1") && len(d.file.Keys) == 0 || address == "localhost" {
		address = "127.0.0.1"
	}
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	return address + ":" + port
}

// add adds an upstream with a name that no other has, and returns the name. If perigee does not accept
// it, it adds a note with the reason and returns "".
func (d *draft) add(u upstream, path string) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, u.Name), "-.")
	if name == "" || name == config.KindSimulator {
		name = "upstream"
	}
	u.Name = name
	taken := func(name string) bool {
		return slices.ContainsFunc(d.file.Upstreams, func(other upstream) bool { return other.Name == name })
	}
	for i := 2; taken(u.Name); i++ {
		u.Name = fmt.Sprintf("%s-%d", name, i)
	}
	if why := refused(file{Upstreams: []upstream{u}}); why != "" {
		d.note(path, "left out: %s", why)
		return ""
	}
	d.file.Upstreams = append(d.file.Upstreams, u)
	return u.Name
}

// refused returns why perigee does not accept a configuration, "" if it does. The variables of its
// secrets count as set.
func refused(f file) string {
	text, err := f.yaml()
	if err != nil {
		return err.Error()
	}
	_, err = config.Load(config.Sources{
		Path: "config.yaml",
		Env: func(name string) (string, bool) {
			setting := strings.HasPrefix(name, "PERIGEE_") || name == "GOOGLE_CLOUD_PROJECT" || name == "GOOGLE_CLOUD_LOCATION"
			return stub(name), !setting || isKey(f, name)
		},
		ReadFile: func(path string) ([]byte, error) { return readOnly(path, text) },
		Spare:    func(key string) bool { return strings.HasPrefix(key, "tls") },
		HomeDir:  "/", ConfigDir: "/",
	})
	problems, ok := errors.AsType[*config.Problems](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		return err.Error()
	}
	p := problems.List[0]
	message, _, _ := strings.Cut(p.Message, ", got ") // which may have a password in it
	message = strings.TrimPrefix(message, "upstreams[0].")
	return strings.TrimPrefix(message, "upstreams[0]: ")
}

// isKey reports whether a secret of a configuration is in a variable.
func isKey(f file, name string) bool {
	return slices.ContainsFunc(f.Keys, func(k key) bool { return k.Secret == "env:"+name })
}

// stub returns the value of a variable for a check, which is different for each name.
func stub(name string) string {
	if strings.Contains(name, "PROXY") {
		return "http://proxy.invalid"
	}
	return "a-value-for-checks-of-" + name
}

// readOnly has one file.
func readOnly(path string, text []byte) ([]byte, error) {
	if path == "config.yaml" {
		return text, nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// yaml returns the file.
func (f file) yaml() ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := errors.Join(encoder.Encode(f), encoder.Close())
	return b.Bytes(), err
}

// merge combines deployments that differ only in their keys and serve the same models, as those do
// that share a load. spread is how the keys are used.
func merge(list []deployment, spread string) (merged []deployment) {
	for _, next := range list {
		i := slices.IndexFunc(merged, func(known deployment) bool { return known.differsInKeys(next) })
		if i < 0 || len(next.Keys) == 0 || slices.Contains(merged[i].Keys, next.Keys[0]) {
			merged = append(merged, next)
			continue
		}
		merged[i].Keys = append(merged[i].Keys, next.Keys...)
		merged[i].Spread = spread
	}
	return merged
}

// A deployment is an upstream with the names that clients have for its models.
type deployment struct {
	upstream
	path   string
	serves []served
}

// A served model has a name for clients and one at the provider.
type served struct{ name, model string }

// differsInKeys reports whether two deployments serve the same models with the same settings, except
// for their keys.
func (a deployment) differsInKeys(b deployment) bool {
	return len(a.Keys) > 0 && slices.Equal(a.serves, b.serves) && a.equalSettings(b)
}

// equalSettings reports whether the upstreams of two deployments have the same settings, except for
// their keys.
func (a deployment) equalSettings(b deployment) bool {
	one, other := a.upstream, b.upstream
	one.Keys, other.Keys, one.Spread, other.Spread = nil, nil, "", ""
	return reflect.DeepEqual(one, other)
}
