package config

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"time"
)

// Sources says where to look. The zero value is the real thing: the search path, the process's
// environment, the file system.
type Sources struct {
	Path     string                       // --config; empty: search
	Flags    map[string]string            // dotted key to value: "listen", "limits.body"
	Env      func(string) (string, bool)  // nil: os.LookupEnv
	Environ  func() []string              // all of it as NAME=value, to find misspelt names; nil: os.Environ, or nothing when Env is set
	ReadFile func(string) ([]byte, error) // nil: os.ReadFile, but no more than a configuration may hold

	// Models are names of models that exist somewhere. One in the configuration that is nearly such a name is spoken of; nil: nobody knows any.
	Models []string

	// Spare says of which keys the value will not be used; nil: of none. There a secret that leads nowhere is no problem,
	// and becomes a word that nobody can present, nor is a kind of upstream that this version has not got.
	Spare func(key string) bool

	Now       func() time.Time // nil: time.Now
	HomeDir   string           // empty: from the system
	ConfigDir string           // empty: from the system

	system string // as runtime.GOOS, which it is when empty; decides where data is kept
}

// Loaded is a configuration that holds, and where it came from. It is never changed after Load, so it may
// be shared.
type Loaded struct {
	Config   *Config
	Path     string // the file; empty when there is none
	Searched string // where it was looked for first
	// KeyVariable is the environment variable whose API key the only upstream has, because there is no file; empty: there is one,
	// or no such variable.
	KeyVariable string
	Warnings    []string          // what is allowed but unwise, one sentence each
	Cautions    []Problem         // the same with its parts
	Origins     map[string]Origin // by key, as in Value; keys that nobody set are missing
	// Variables are the environment variables that secrets were read from, in order of name.
	Variables []string
	// Certificate is the pair in the files of tls; nil: none is configured, or Sources.Spare names tls.key.
	Certificate *tls.Certificate

	inputs  []input
	blank   bool              // the file has nothing in it but comments
	shown   map[string]string // what is shown of secrets, by key
	refused map[string]bool   // keys with a value that could not be taken; none in a configuration that holds
}

// An input is a file that was read, or looked for, on the way to a configuration.
type input struct {
	path       string
	limit      int64 // of its size
	missing    bool
	sum        [sha256.Size]byte
	unfinished bool // a configuration file whose last line has no line break
}

// Load merges flag over environment over file over default and checks the result. The error is a
// *Problems with everything that is wrong; then there is no configuration at all.
func Load(src Sources) (*Loaded, error) {
	l := newLoader(src)
	l.gather()
	if problems := l.complaints(); problems != nil {
		return nil, problems
	}
	return l.loaded(), nil
}

// Inspect is Load for who wants to see a configuration also when it does not hold. Beside the error there is what was
// understood of it, which is not for use: values that were refused are [refused]. It is nil when there is a file and
// nothing is known of what it says.
func Inspect(src Sources) (*Loaded, error) {
	l := newLoader(src)
	whole := l.gather()
	var err error
	if problems := l.complaints(); problems != nil {
		err = problems
	}
	if !whole {
		return nil, err
	}
	return l.loaded(), err
}

// gather brings all sources together and checks the result. It says whether all of the file was understood.
func (l *loader) gather() (whole bool) {
	whole = l.readFile()
	l.useKeyOfEnvironment()
	l.applyEnvironment()
	l.applyFlags()
	l.fillDefaults(reflect.ValueOf(l.config).Elem(), "", "")
	l.inheritProxy()
	if whole {
		// What the file says about the rest is only known when all of it was understood.
		l.validate()
		l.findMisspeltEnvironment()
		l.warnAboutReadableSecrets()
	}
	return whole
}

// complaints returns what is wrong, nil for nothing.
func (l *loader) complaints() *Problems {
	if len(l.problems.List) == 0 {
		return nil
	}
	l.problems.sort()
	l.problems.shorten()
	return &l.problems
}

func (l *loader) loaded() *Loaded {
	if more := len(l.warnings) - maxProblems; more > 0 {
		l.warnings = append(l.warnings[:maxProblems], Problem{Message: fmt.Sprintf("there are %d more warnings", more)})
	}
	var sentences []string
	for _, warning := range l.warnings {
		sentences = append(sentences, warning.String())
	}
	var variables []string
	for name := range l.envNames {
		if value, _ := l.src.Env(name); value != "" {
			variables = append(variables, name)
		}
	}
	slices.Sort(variables)
	return &Loaded{Config: l.config, Variables: variables, Path: l.path, Searched: l.searched, KeyVariable: l.keyVariable, Certificate: l.certificate, Warnings: sentences, Cautions: l.warnings, Origins: l.origins,
		inputs: l.inputs, blank: l.blank, shown: l.shown, refused: l.bad}
}

// A loader is one run of Load.
type loader struct {
	src      Sources
	path     string // of the file; empty when there is none
	searched string
	config   *Config
	origins  map[string]Origin
	bad      map[string]bool // keys with a value that was refused: no follow-up problems about them
	problems Problems
	warnings []Problem
	inputs   []input
	blank    bool // the file has nothing in it but comments

	envNames    map[string]bool   // what env: refers to
	shown       map[string]string // what is shown of secrets, by key
	secretFiles []string          // that file: refers to
	literals    []string          // keys of secrets that stand in the file themselves
	visited     int               // nodes of the tree, an alias counted each time it is followed
	hints       int               // that were looked for

	certificate *tls.Certificate // of tls; nil: none

	keyVariable string // that the only upstream has its key from, because there is no file
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
	return &loader{
		src: src, config: new(Config),
		origins: make(map[string]Origin), bad: make(map[string]bool), envNames: make(map[string]bool), shown: make(map[string]string),
	}
}

// readFile finds, reads and decodes the file. It says whether what it says is known: false means that
// some of it was not even understood.
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
		l.searched = paths[0]
	}
	if errors.Is(err, fs.ErrNotExist) && named == "" {
		return true
	}
	l.path = path
	if err != nil {
		problem := Problem{Origin: Origin{Source: path}, Message: reason(err)}
		if errors.Is(err, fs.ErrNotExist) {
			problem.Message, problem.Hint = "the file does not exist", "it is named by "+named
		}
		l.problems.List = append(l.problems.List, problem)
		return false
	}
	l.inputs[len(l.inputs)-1].unfinished = len(text) > 0 && text[len(text)-1] != '\n'
	root := l.parse(text)
	if len(l.problems.List) > 0 {
		return false
	}
	l.blank = root == nil || root.Tag == "!!null"
	if root != nil {
		l.decode(root, reflect.ValueOf(l.config).Elem(), "", field{})
	}
	return l.visited <= maxVisited
}

// read reads a file of at most limit bytes and remembers that it did.
func (l *loader) read(path string, limit int64) ([]byte, error) {
	readFile := l.src.ReadFile
	if readFile == nil {
		readFile = func(path string) ([]byte, error) { return readAtMost(path, limit+1) }
	}
	text, err := readFile(path)
	if !slices.ContainsFunc(l.inputs, func(in input) bool { return in.path == path }) {
		l.inputs = append(l.inputs, input{path: path, limit: limit, missing: err != nil, sum: sha256.Sum256(text)})
	}
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("the file is larger than %v", Size(limit))
	}
	return text, nil
}

func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, limit))
}

// reason is err without the path, which the caller says itself.
func reason(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}

// problemAt reports something at a place in the file.
func (l *loader) problemAt(line, column int, message, hint string) {
	l.problems.List = append(l.problems.List, Problem{Origin{l.path, max(1, line), max(1, column)}, message, hint})
}

// problem reports something about a key: where it was set, or else what it would be part of.
func (l *loader) problem(key, message, hint string) {
	l.problems.List = append(l.problems.List, Problem{l.origin(key), message, hint})
}

// refuse reports that a key's value cannot be taken, and lets nobody look at it again.
func (l *loader) refuse(origin Origin, key, message, hint string) {
	l.bad[key] = true
	l.problems.List = append(l.problems.List, Problem{origin, key + ": " + message, hint})
}

// warn says that something is allowed but unwise.
func (l *loader) warn(format string, args ...any) {
	l.warnAt(Origin{}, format, args...)
}

// warnAt says so of something that was set at a place.
func (l *loader) warnAt(origin Origin, format string, args ...any) {
	l.warnings = append(l.warnings, Problem{Origin: origin, Message: fmt.Sprintf(format, args...)})
}

// hint looks for what was meant, as long as anybody is going to read it: comparing names is what takes time when a file
// is wrong everywhere.
func (l *loader) hint(look func() string) string {
	if l.hints++; l.hints > maxProblems {
		return ""
	}
	return look()
}

// origin finds where key, or the nearest thing around it, was set.
func (l *loader) origin(key string) Origin {
	for ; key != ""; key = parent(key) {
		if o, ok := l.origins[key]; ok {
			return o
		}
	}
	return Origin{Source: fromDefault}
}

// good says whether a key has a value that may be looked at.
func (l *loader) good(key string) bool { return !l.bad[key] }

// isSet says whether somebody gave key a value.
func (l *loader) isSet(key string) bool {
	_, ok := l.origins[key]
	return ok
}

// warnAboutReadableSecrets speaks up when others on this machine can read what should be hidden.
func (l *loader) warnAboutReadableSecrets() {
	if l.src.ReadFile != nil || runtime.GOOS == "windows" {
		return
	}
	if mode, ok := readableByOthers(l.path); ok && len(l.literals) > 0 {
		l.warn("%s holds a secret (%s) and can be read by others (mode %#o); write env:NAME or file:PATH there, or type: chmod 600 %s",
			l.path, l.literals[0], mode, filepath.Clean(l.path))
	}
	slices.Sort(l.secretFiles)
	for _, path := range slices.Compact(l.secretFiles) {
		if mode, ok := readableByOthers(path); ok {
			l.warn("the secret file %[1]s can be read by others (mode %#[2]o); type: chmod 600 %[1]s", filepath.Clean(path), mode)
		}
	}
}

// readableByOthers says whether users besides the owner may read a file.
func readableByOthers(path string) (os.FileMode, bool) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, false
	}
	mode := info.Mode().Perm()
	return mode, mode&0o077 != 0
}
