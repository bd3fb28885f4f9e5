package standin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable with the settings.
const Variable = "PERIGEE_STANDIN"

// The generations of language servers.
const (
	classic  = "classic"  // of the first IDEs
	classic2 = "classic2" // of IDEs since 1.21
	hub      = "hub"      // of the desktop application, without an Extension Server
	hub2     = "hub2"     // of the desktop application, with the flags of classic2 as well
)

// settings are the parsed value of the variable.
type settings struct {
	generation string
	stream     bool // all methods of the Extension Server are streams
	bare       bool // requests of streams have no envelope
	secret     bool // the token is a secret of the IDE, not a row of a topic
	http       string
	version    string
	page       int
	retries    int
	store      string
	faults     map[string]string // name to value
}

// keyHelp is the documentation of each key.
var keyHelp = [][2]string{
	{"generation=classic|classic2|hub|hub2", "the flags and habits of a generation: classic has --random_port and --server_port and queues messages, " +
		"classic2 (default) has --https_server_port and --http_server_port, hub has --standalone and no Extension Server, hub2 has the flags of both and is what its flags say"},
	{"belief=stream,bare,secret", "what it believes about its Extension Server, none by default: stream calls every method as a server stream, " +
		"bare sends requests of streams without envelope, secret takes the token from GetSecretValue(\"oauth_token\") instead of the topic uss-oauth"},
	{"http=1.1|2", "the only version of HTTP for TLS connections to the cloud; default: as negotiated"},
	{"version=X.Y.Z", "the version that the cloud is told if neither the metadata nor --override_ide_version name one (2.15.1)"},
	{"page=N", "the most steps in one answer; the rest has to be asked for with stepOffset (50)"},
	{"retries=N", "how often a call of the cloud that failed with 429 or 503 is repeated (1)"},
	{"store=pb|db", "how conversations are kept in conversations/: as a message, whose file real versions encrypt, or as an SQLite database of versions since 2.0, " +
		"which is written whenever a step begins or changes its status (pb)"},
	{"fault=NAME[:VALUE],…", "failures, see below"},
}

// A faultKind is a failure that can be asked for.
type faultKind struct {
	value string // kind of the value: times, duration, MiB, method or frames
	plain string // the value if none is given; "" for times: always
	help  string
}

var faultKinds = map[string]faultKind{
	"crash-at-start":   {"times", "", "panics before its ports are open"},
	"crash-on-send":    {"times", "", "panics when a message is sent to a conversation, before it is recorded"},
	"crash-mid-stream": {"times", "", "panics after the first chunk of an answer of the cloud"},
	"crash-after":      {"duration", "1s", "panics after this time"},
	"hang-at-start":    {"times", "", "opens no ports and says nothing"},
	"slow-start":       {"duration", "3s", "opens its ports after this time"},
	"never-ready":      {"times", "", "opens its ports, but Heartbeat and GetUserStatus answer that it is unavailable"},
	"hang-on-call":     {"method", "*", "never answers calls of this method; *: of all methods"},
	"ignore-exit":      {"", "", "ignores SIGTERM and Exit"},
	"ignore-lifeline":  {"", "", "lives on without its parent pipe or standard input"},
	"eat-memory":       {"MiB", "64", "takes this much memory with the first message"},
	"big-stderr":       {"MiB", "8", "writes this much to standard error at start"},
	"drop-streams":     {"frames", "3", "ends each stream of updates after this many frames"},
	"reconnect-storm":  {"duration", "20ms", "reopens its subscriptions of topics after this time, again and again"},
	"big-push":         {"MiB", "1", "pushes summaries of this size"},
	"wrong-port":       {"times", "", "reports ports to its Extension Server on which nothing listens"},
	"reads-token-once": {"", "", "uses the token that its token file had at first until it ends (hub)"},
	"leave-child":      {"duration", "1m", "starts a process that outlives it by up to this time (needs the program sleep)"},
}

// Usage explains the variable.
func Usage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s has settings of the stand-in language server, separated by spaces:\n\n", Variable)
	for _, key := range keyHelp {
		fmt.Fprintf(&b, "  %s\n      %s\n", key[0], key[1])
	}
	b.WriteString("\nFaults occur at every start and call, or as often as a number of times says; that count survives restarts in HOME:\n\n")
	for _, name := range slices.Sorted(maps.Keys(faultKinds)) {
		kind := faultKinds[name]
		switch {
		case kind.plain != "":
			name += fmt.Sprintf("[:%s] (%s)", kind.value, kind.plain)
		case kind.value != "":
			name += "[:" + kind.value + "]"
		}
		fmt.Fprintf(&b, "  %-32s %s\n", name, kind.help)
	}
	fmt.Fprintf(&b, "\nExample: %s=\"generation=hub http=1.1 fault=crash-on-send:1,slow-start:2s\"\n", Variable)
	return b.String()
}

// parseSettings reads the variable.
func parseSettings(text string) (settings, error) {
	s := settings{generation: classic2, version: "2.15.1", page: 50, retries: 1, store: storeMessage, faults: map[string]string{}}
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		if err := s.set(key, value); err != nil {
			return s, fmt.Errorf("%s: %w; --help-standin has all settings", Variable, err)
		}
	}
	if s.generation == hub && (s.stream || s.bare || s.secret) {
		return s, fmt.Errorf("%s: generation hub has no Extension Server to believe anything about; leave out belief", Variable)
	}
	return s, nil
}

func (s *settings) set(key, value string) (err error) {
	switch key {
	case "generation":
		s.generation = value
		return oneOf(key, value, classic, classic2, hub, hub2)
	case "belief":
		for belief := range strings.SplitSeq(value, ",") {
			if err := oneOf(key, belief, "stream", "bare", "secret"); err != nil {
				return err
			}
			s.stream = s.stream || belief == "stream"
			s.bare = s.bare || belief == "bare"
			s.secret = s.secret || belief == "secret"
		}
		return nil
	case "http":
		s.http = value
		return oneOf(key, value, "1.1", "2")
	case "version":
		s.version = value
		if value == "" {
			return fmt.Errorf("version is empty")
		}
		return nil
	case "page":
		s.page, err = wholeNumber(key, value, 1)
		return err
	case "retries":
		s.retries, err = wholeNumber(key, value, 0)
		return err
	case "store":
		s.store = value
		return oneOf(key, value, storeMessage, storeDatabase)
	case "fault":
		for fault := range strings.SplitSeq(value, ",") {
			if err := s.addFault(fault); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown key %q", key)
}

func (s *settings) addFault(text string) error {
	name, value, given := strings.Cut(text, ":")
	kind, known := faultKinds[name]
	if !known {
		return fmt.Errorf("unknown fault %q", name)
	}
	if !given {
		s.faults[name] = kind.plain
		return nil
	}
	var err error
	switch kind.value {
	case "":
		err = fmt.Errorf("fault %s takes no value", name)
	case "duration":
		if d, wrong := time.ParseDuration(value); wrong != nil || d <= 0 {
			err = fmt.Errorf("fault %s: %q is no duration such as 500ms", name, value)
		}
	case "method":
		if value == "" {
			err = fmt.Errorf("fault %s: the method is empty", name)
		}
	default:
		_, err = wholeNumber("fault "+name, value, 1)
	}
	s.faults[name] = value
	return err
}

func oneOf(key, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s is %q, not one of %s", key, value, strings.Join(known, ", "))
}

func wholeNumber(key, value string, least int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s is %q, not a number of at least %d", key, value, least)
	}
	return n, nil
}
