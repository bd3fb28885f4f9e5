package config

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"perigee/internal/store/datadir"
)

// Sources are the inputs of a configuration. The zero value uses the search path, the environment
// of the process and the file system.
type Sources struct {
	Path  string                      // --config; empty to search for the file
	Flags map[string]string           // by key: "listen", "limits.body"
	Env   func(string) (string, bool) // os.LookupEnv if nil
	// Environ returns the environment as NAME=value, to find misspelt names. If it is nil, it is
	// os.Environ, or nothing if Env is set.
	Environ  func() []string
	ReadFile func(string) ([]byte, error) // os.ReadFile with a limit if nil

	// AnswersOllama reports whether an Ollama server answers at a base URL. It is asked only if there
	// is no file. If it is nil, no server is searched.
	AnswersOllama func(url string) bool

	// Models are names of existing models. A similar name in the configuration gets a warning.
	Models []string

	// Spare reports whether the value of a key will not be used; if nil, all are used. Such a
	// secret may be missing, and such an upstream may be of a kind that this version does not
	// support.
	Spare func(key string) bool

	Now       func() time.Time // time.Now if nil
	HomeDir   string           // from the system if empty
	ConfigDir string           // from the system if empty

	system string // runtime.GOOS if empty; decides where data is stored
}

// Loaded is a valid configuration and its origins. It is not changed after Load, so it may be
// shared.
type Loaded struct {
	Config      *Config
	Path        string            // the file; empty if there is none
	Searched    string            // the first path that was searched
	Warnings    []Problem         // allowed but unwise
	Origins     map[string]Origin // by key, as in Value; values that are not set are missing
	Variables   []string          // environment variables that secrets were read from, sorted
	Certificate *tls.Certificate  // of tls; nil if not configured, or spared (Sources.Spare)

	// Without a file: the upstreams of the environment, and the variables that were passed over
	// because their values are too short for an API key.
	Environment  []EnvironmentUpstream
	Placeholders []string

	inputs []input
	blank  bool              // the file has only comments
	shown  map[string]string // texts shown in place of secrets, by key
	bad    map[string]bool   // keys with a refused value: there are no further problems about them
}

// Files returns the files that the configuration was read from: its own file, and the files of
// secrets and certificates.
func (l *Loaded) Files() []string {
	paths := make([]string, len(l.inputs))
	for i, in := range l.inputs {
		paths[i] = in.path
	}
	return paths
}

// An input is a file that was read or searched.
type input struct {
	path       string
	limit      int64 // of its size
	missing    bool
	sum        [sha256.Size]byte
	unfinished bool // the last line has no line break
}

// Load merges flags over environment over file over defaults, and validates the result. The error
// is a *Problems.
func Load(src Sources) (*Loaded, error) {
	l := newLoader(src)
	l.load()
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.loaded(), nil
}

// Inspect is Load for showing a configuration even if it is invalid: the result then has the values
// that could be read, and must not be used. It is nil if the file could not be parsed.
func Inspect(src Sources) (*Loaded, error) {
	l := newLoader(src)
	if !l.load() {
		return nil, l.err()
	}
	return l.loaded(), l.err()
}

// maxFile is the largest size of the file in bytes.
const maxFile = 1 << 20

// A loader is one run of Load.
type loader struct {
	Loaded
	src      Sources
	problems []Problem

	variables   map[string]bool // names in env: references
	secretFiles []string        // paths in file: references
	literals    []string        // keys of secrets that the file contains
	visited     int             // nodes of the file, an alias counted each time it is followed
	hints       int             // that were searched
}

func newLoader(src Sources) *loader {
	if src.Environ == nil && src.Env == nil {
		src.Environ = os.Environ
	}
	if src.Env == nil {
		src.Env = os.LookupEnv
	}
	if src.Now == nil {
		src.Now = time.Now
	}
	if src.system == "" {
		src.system = runtime.GOOS
	}
	return &loader{src: src, variables: make(map[string]bool), Loaded: Loaded{
		Config: new(Config), Origins: make(map[string]Origin), shown: make(map[string]string), bad: make(map[string]bool),
	}}
}

// load reads all sources and validates the result. It reports whether the whole file was parsed.
func (l *loader) load() (parsed bool) {
	parsed = l.readFile()
	l.useEnvironment()
	l.applyEnvironment()
	l.applyFlags()
	l.fillDefaults()
	l.inheritProxy()
	l.inheritLimits()
	if parsed { // otherwise problems about missing values would be wrong
		l.validate()
	}
	return parsed
}

// err returns all problems as *Problems.
func (l *loader) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	return newProblems(l.problems)
}

func (l *loader) loaded() *Loaded {
	loaded := l.Loaded
	if more := len(loaded.Warnings) - maxProblems; more > 0 {
		loaded.Warnings = append(loaded.Warnings[:maxProblems], Problem{Message: fmt.Sprintf("there are %d more warnings", more)})
	}
	for _, name := range slices.Sorted(maps.Keys(l.variables)) {
		if l.src.lookup(name) != "" {
			loaded.Variables = append(loaded.Variables, name)
		}
	}
	return &loaded
}

// readFile finds, reads and decodes the file. It reports whether the whole file was parsed.
func (l *loader) readFile() bool {
	paths, named := l.src.files()
	var path string
	var text []byte
	err := fs.ErrNotExist
	for _, path = range paths {
		if text, err = l.read(path, maxFile); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if len(paths) > 0 {
		l.Searched = paths[0]
	}
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return true
	}
	l.Path = path
	if err != nil {
		message, hint := reason(err), ""
		if errors.Is(err, fs.ErrNotExist) {
			message, hint = "the file does not exist", "it is named by "+named
		}
		l.report(Origin{Source: path}, message, hint)
		return false
	}
	l.inputs[len(l.inputs)-1].unfinished = len(text) > 0 && text[len(text)-1] != '\n'
	root, bad := parseTree(text)
	switch {
	case bad != nil:
		l.report(Origin{path, max(1, bad.Line), max(1, bad.Column)}, bad.Message, bad.Hint)
		return false
	case root == nil || root.Tag == "!!null":
		l.blank = true
	case root.Kind != yaml.MappingNode:
		l.problemAt(root, "the file: expected a mapping of keys to values, got "+describeNode(root), "")
	default:
		l.decodeMapping(root, reflect.ValueOf(l.Config).Elem(), "")
	}
	return l.visited <= maxVisited
}

// read reads a file of at most limit bytes and adds it to the inputs.
func (l *loader) read(path string, limit int64) ([]byte, error) {
	readFile := l.src.ReadFile
	if readFile == nil {
		readFile = func(path string) ([]byte, error) { return readAtMost(path, limit+1) }
	}
	text, err := readFile(path)
	if !slices.ContainsFunc(l.inputs, func(in input) bool { return in.path == path }) {
		l.inputs = append(l.inputs, input{path: path, limit: limit, missing: err != nil, sum: sha256.Sum256(text)})
	}
	if err == nil && int64(len(text)) > limit {
		return nil, fmt.Errorf("the file is larger than %v", Size(limit))
	}
	return text, err
}

func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// readRegular is read for regular files: a device or a pipe might never end. Its error does not
// name the path.
func (l *loader) readRegular(path string, limit int64) ([]byte, error) {
	if info, err := os.Stat(path); l.src.ReadFile == nil && err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	text, err := l.read(path, limit)
	if err != nil {
		return nil, errors.New(reason(err))
	}
	return text, nil
}

// reason is err without the path.
func reason(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "does not exist"
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}

// applyEnvironment sets every single value outside lists from its PERIGEE_ variable, if that is
// set.
func (l *loader) applyEnvironment() {
	for _, s := range leaves(l.Config) {
		if value := l.src.lookup(s.env()); value != "" {
			l.set(s, value, Origin{Source: "environment " + s.env()})
		}
	}
}

func (l *loader) applyFlags() {
	known := leaves(l.Config)
	for key, value := range l.src.Flags {
		origin := Origin{Source: "flag --" + strings.ReplaceAll(key, "_", "-")}
		if i := slices.IndexFunc(known, func(s setting) bool { return s.key == key }); i >= 0 {
			l.set(known[i], value, origin)
		} else {
			l.report(origin, fmt.Sprintf("unknown key %q", key), "")
		}
	}
}

// fillDefaults sets every value that no source has set to the default of its field.
func (l *loader) fillDefaults() {
	walkSettings(l.Config, func(s setting) bool {
		switch {
		case s.item || l.isSet(s.key):
		case s.key == "data_dir":
			l.Config.DataDir = datadir.Default(l.src.system, l.src.lookup, l.src.home())
		default:
			setPreset(s)
		}
		return true
	})
}

// setPreset sets a value to the default of its field, if that has one.
func setPreset(s setting) {
	preset := s.field.presetFor(s.kind)
	switch {
	case preset == nil:
	case s.value.Kind() == reflect.Slice:
		s.value.Set(reflect.ValueOf(strings.Split(*preset, ",")))
	default:
		value, err := s.field.parse(*preset)
		if err != nil {
			panic("config: default of " + s.key + ": " + err.Error())
		}
		s.value.Set(value)
	}
}

// inheritProxy copies the proxy at the top level to upstreams that have none.
func (l *loader) inheritProxy() {
	if l.Config.Proxy.IsZero() {
		return
	}
	for i := range l.Config.Upstreams {
		u, key := &l.Config.Upstreams[i], itemKey("upstreams", i)+".proxy"
		if !l.isSet(key) && upstreamField("proxy").belongs(u.Kind) {
			u.Proxy, l.Origins[key], l.shown[key] = l.Config.Proxy, l.Origins["proxy"], l.shown["proxy"]
		}
	}
}

// inheritLimits copies limits.first_byte and limits.idle to upstreams that have none of their own.
func (l *loader) inheritLimits() {
	for i := range l.Config.Upstreams {
		u := &l.Config.Upstreams[i]
		for name, limit := range map[string]struct {
			own *time.Duration
			all time.Duration
		}{
			"first_byte": {&u.FirstByte, l.Config.Limits.FirstByte},
			"idle":       {&u.Idle, l.Config.Limits.Idle},
		} {
			key, f := joinKey(itemKey("upstreams", i), name), upstreamField(name)
			if l.isSet(key) || !f.belongs(u.Kind) || f.presetFor(u.Kind) != nil {
				continue
			}
			*limit.own = limit.all
			if origin, ok := l.Origins["limits."+name]; ok {
				l.Origins[key] = origin
			}
		}
	}
}

// report adds a problem.
func (l *loader) report(origin Origin, message, hint string) {
	l.problems = append(l.problems, Problem{origin, message, hint})
}

// problemAt reports a problem at a node of the file.
func (l *loader) problemAt(node *yaml.Node, message, hint string) {
	l.report(Origin{l.Path, max(1, node.Line), max(1, node.Column)}, message, hint)
}

// problem reports a problem with the value of a key, unless the value was refused already. If the
// key is not set, the problem is reported where the mapping or list around it was set.
func (l *loader) problem(key, message, hint string) {
	if l.accepted(key) {
		l.report(l.origin(key), message, hint)
	}
}

// refuse reports that the value of a key cannot be used.
func (l *loader) refuse(key, message, hint string) {
	l.report(l.origin(key), key+": "+message, hint)
	l.bad[key] = true
}

// warn reports that the value of a key is allowed but unwise, unless the value was refused. An
// empty key is for warnings without a place.
func (l *loader) warn(key, format string, args ...any) {
	if !l.accepted(key) {
		return
	}
	warning := Problem{Message: fmt.Sprintf(format, args...)}
	if key != "" {
		warning.Origin = l.origin(key)
	}
	l.Warnings = append(l.Warnings, warning)
}

// hint calls search for the first maxProblems problems: comparing names takes long, and no more
// problems are shown.
func (l *loader) hint(search func() string) string {
	if l.hints++; l.hints > maxProblems {
		return ""
	}
	return search()
}

// origin returns where key, or the mapping or list around it, was set.
func (l *loader) origin(key string) Origin {
	for ; key != ""; key = parentKey(key) {
		if o, ok := l.Origins[key]; ok {
			return o
		}
	}
	return Origin{Source: fromDefault}
}

// accepted reports whether neither the value of a key nor the mapping or list around it was
// refused.
func (l *loader) accepted(key string) bool {
	for ; key != ""; key = parentKey(key) {
		if l.bad[key] {
			return false
		}
	}
	return true
}

// isSet reports whether a source has set key.
func (l *loader) isSet(key string) bool {
	_, ok := l.Origins[key]
	return ok
}

// A Value is a setting in effect. Key is as in "upstreams[0].keys[1]". Value is as in the file, but
// a secret is a reference ([env:NAME], [file:PATH]) or [redacted], and a value that Inspect found
// invalid is [refused].
type Value struct {
	Key   string `json:"key"`
	Value string `json:"-"`
	// Typed is Value as a bool, a number, an empty list or an empty map if it is one, and otherwise
	// the text.
	Typed any `json:"value"`
	// Origin is "default", "/path/config.yaml:12", "environment PERIGEE_LISTEN" or "flag --listen".
	Origin string `json:"origin"`
}

// Default reports whether nothing sets the value.
func (v Value) Default() bool { return v.Origin == fromDefault }

// Values lists every setting in the order of the file. An empty list is one value, "[]".
func (l *Loaded) Values() (list []Value) {
	walkSettings(l.Config, func(s setting) bool {
		v := Value{Key: s.key, Origin: fromDefault}
		if origin, ok := l.Origins[s.key]; ok {
			v.Origin = origin.String()
		}
		shown, isSecret := l.shown[s.key]
		switch {
		case l.bad[s.key]:
			v.Value = "[refused]"
		case isMapping(s.value.Type()), scalars[s.value.Type()] == nil && s.value.Len() > 0:
			return true
		case isSecret:
			v.Value = shown
		default:
			v.Value = textOf(s.value.Interface())
		}
		v.Typed = v.Value
		if !isSecret && !l.bad[s.key] {
			v.Typed = typed(s.value, v.Value)
		}
		list = append(list, v)
		return false
	})
	return list
}

// typed returns the value of a setting for programs, or its text.
func typed(v reflect.Value, text string) any {
	switch v.Interface().(type) {
	case bool, int, int64, float64:
		return v.Interface()
	case JSON:
		return json.RawMessage(text)
	}
	switch v.Kind() {
	case reflect.Slice:
		return []any{}
	case reflect.Map:
		return map[string]any{}
	}
	return text
}
