package perigee_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"perigee/internal/testing/perigeetest/await"
)

// A rule is a package, the reason for its limits, and what it may import of this and other modules. The standard library is
// always allowed. Every package needs an entry in this table.
type rule struct {
	path    string
	reason  string
	imports []string
}

var rules = []rule{
	{"perigee", "the product's words depend on nothing", nil},

	// Leaves: pure, no knowledge of the product beyond its words.
	{"perigee/internal/lib/netguard", "classifies network addresses", nil},
	{"perigee/internal/lib/lru", "a container", nil},
	{"perigee/internal/lib/match", "compares names with patterns and with each other", nil},
	{"perigee/internal/lib/hostglob", "patterns of host names, whatever they are for", []string{
		"perigee/internal/lib/match",
	}},
	{"perigee/internal/lib/rawjson", "reads and splices JSON", []string{
		"golang.org/x/sys",
	}},
	{"perigee/internal/server/membudget", "adds up bytes, whatever they are for; asks the system how many there are", []string{
		"perigee",
		"golang.org/x/sys",
	}},
	{"perigee/internal/store/batchwriter", "writes rows together, whatever they are and wherever they go", nil},
	{"perigee/internal/lib/atomicfile", "writes and locks files, whatever is in them", []string{
		"golang.org/x/sys",
	}},
	{"perigee/internal/lib/connlimit", "bounds connections, whatever is served on them", nil},
	{"perigee/internal/store/datadir", "the files of perigee and their permissions", []string{
		"perigee",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/intercept/redirect", "rules and a user of the system, whatever listens at the port", []string{
		"perigee/internal/lib/atomicfile",
		"golang.org/x/sys",
	}},
	{"perigee/internal/lib/diskspace", "asks the system about disks, whatever is on them", nil},
	{"perigee/internal/lib/procgroup", "groups of processes, whatever they do", []string{
		"golang.org/x/sys/windows",
	}},
	{"perigee/internal/lib/runas", "starts programs of another user, whatever they do", []string{
		"perigee/internal/lib/procgroup",
	}},
	{"perigee/internal/lib/sse", "reads and writes event streams", nil},
	{"perigee/internal/lib/csvtable", "writes CSV, whatever the rows are", nil},
	{"perigee/internal/cli", "the frame of a command line, whatever the commands do", []string{
		"perigee/internal/lib/csvtable",
		"perigee/internal/lib/match",
		"perigee/internal/lib/terminal",
	}},
	{"perigee/internal/cli/report", "prints what commands show, wherever they got it", []string{
		"perigee",
		"perigee/internal/cli",
		"perigee/internal/lib/terminal",
	}},
	{"perigee/internal/cli/completion", "completes command lines by the table of commands and their help", []string{
		"perigee/internal/cli",
	}},
	{"perigee/internal/lib/terminal", "writes tables, log lines and progress for a terminal, and does not know what they are about", nil},
	{"perigee/internal/testing/terminaltest", "terminals for tests", []string{
		"perigee/internal/testing/perigeetest/await",
		"golang.org/x/sys",
	}},
	{"perigee/internal/cli/connect", "the settings of clients, wherever perigee runs", []string{
		"perigee",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/cli/connect/edit",
		"perigee/internal/lib/match",
		"perigee/internal/lib/redact",
		"github.com/rogpeppe/go-internal/diff",
	}},
	{"perigee/internal/cli/connect/lease", "shares a process, whatever it does", []string{
		"perigee/internal/lib/atomicfile",
	}},
	{"perigee/internal/cli/connect/edit", "changes values in files, whatever program they belong to", []string{
		"github.com/pelletier/go-toml/v2",
		"github.com/tailscale/hujson",
		"go.yaml.in/yaml/v3",
	}},
	{"perigee/internal/daemon/systemd", "speaks with a service manager, whatever the service is", []string{
		"golang.org/x/sys",
	}},

	// Generated from proto/, and without rules of its own.
	{"perigee/gen", "messages and services of the language server", []string{
		"perigee/gen/...",
		"connectrpc.com/connect",
		"google.golang.org/protobuf",
	}},

	// The language server and its Extension Server.
	{"perigee/internal/langserver/connectframe", "the frames of the Connect protocol, whatever the messages are", []string{
		"connectrpc.com/connect",
	}},

	// The pure middle: bytes to words and back.
	{"perigee/internal/dialect/media", "what URLs and names say about media, for the dialects that have them", []string{
		"perigee",
	}},
	{"perigee/internal/dialect/search", "what is known of the searches behind an answer, for the dialects that tell of them",
		[]string{
			"perigee",
		}},
	{"perigee/internal/dialect/turns", "one way to lay a conversation out, for the dialects that are not Google's", []string{
		"perigee",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/dialect/gemini", "dialects are pure; errors of Google's APIs are classified in one place", []string{
		"perigee",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/sse",
	}},
	{"perigee/internal/dialect/openai", "dialects are pure", []string{
		"perigee",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/dialect/openai/chat", "an API of a dialect builds on what its APIs share", []string{
		"perigee",
		"perigee/internal/dialect/media",
		"perigee/internal/dialect/openai",
		"perigee/internal/dialect/search",
		"perigee/internal/dialect/turns",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/sse",
	}},
	{"perigee/internal/dialect/openai/responses", "an API of a dialect builds on what its APIs share", []string{
		"perigee",
		"perigee/internal/dialect/media",
		"perigee/internal/dialect/openai",
		"perigee/internal/dialect/search",
		"perigee/internal/dialect/turns",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/sse",
	}},
	{"perigee/internal/dialect/anthropic", "dialects are pure", []string{
		"perigee",
		"perigee/internal/dialect/media",
		"perigee/internal/dialect/search",
		"perigee/internal/dialect/turns",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/dialect/mcp", "dialects are pure", []string{
		"perigee",
	}},
	{"perigee/internal/dialect/growth", "tests alone", nil},
	{"perigee/internal/dialect/roundtrip", "only tests, which hold the dialects against each other", nil},

	// Models: their names, families and limits, and the changes that requests to them need.
	{"perigee/internal/adapt/models", "a table of models and rules about their names", []string{
		"perigee",
	}},
	{"perigee/internal/adapt/price", "a table of prices, and costs by arithmetic", []string{
		"perigee",
		"perigee/internal/lib/match",
	}},
	{"perigee/internal/adapt/schema", "JSON Schema to what the provider accepts is pure", []string{
		"perigee",
		"perigee/internal/lib/lru",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/adapt/toolname", "translating names is pure", []string{
		"perigee",
	}},
	{"perigee/internal/adapt", "adapting a prompt is pure", []string{
		"perigee",
		"perigee/internal/adapt/toolname",
		"perigee/internal/adapt/models",
		"perigee/internal/lib/rawjson",
		"perigee/internal/adapt/schema",
	}},
	{"perigee/internal/upstream/cloudcode", "the framing of an API knows neither endpoints nor accounts", []string{
		"perigee",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/lib/redact", "replacing secrets in texts is pure", []string{
		"perigee",
	}},
	{"perigee/internal/adapt/providererr", "classifying errors is pure", []string{
		"perigee",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/account/pool/breaker", "a state machine", []string{
		"perigee",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/steadyclock",
	}},
	{"perigee/internal/account/pool/health", "arithmetic", []string{
		"perigee/internal/lib/steadyclock",
	}},
	{"perigee/internal/account/pool/cause", "a table", []string{
		"perigee",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/steadyclock",
	}},
	{"perigee/internal/account/pool", "choosing accounts makes no calls", []string{
		"perigee",
		"perigee/internal/account/pool/...",
		"perigee/internal/lib/lru",
		"perigee/internal/store/batchwriter",
		"perigee/internal/adapt/models",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/steadyclock",
	}},
	{"perigee/internal/lib/steadyclock", "a clock of elapsed time", nil},

	// Upstreams around upstreams.
	{"perigee/internal/route/hold", "events are held back wherever an answer is not certain yet", []string{
		"perigee",
	}},
	{"perigee/internal/route", "routing knows upstreams by ability only", []string{
		"perigee",
		"perigee/internal/route/hold",
		"perigee/internal/lib/match",
		"perigee/internal/adapt/models",
	}},
	{"perigee/internal/route/stopseq", "an answer ends at a stop sequence, whichever upstream gives it", []string{
		"perigee",
		"perigee/internal/route/hold",
	}},
	{"perigee/internal/route/thoughtsig", "signatures are kept around any upstream, in any store", []string{
		"perigee",
		"perigee/internal/store/batchwriter",
		"perigee/internal/lib/lru",
		"perigee/internal/adapt/models",
	}},
	{"perigee/internal/store/audit", "administrative acts go into any store", []string{
		"perigee",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/observe/trace/shrink", "makes requests smaller, whatever they fail at", []string{
		"perigee",
	}},
	{"perigee/internal/observe/trace/compare", "compares answers as clients got them", []string{
		"perigee",
		"github.com/rogpeppe/go-internal/diff",
	}},
	{"perigee/internal/observe/trace/replay", "sends calls again through the server, whatever answers them", []string{
		"perigee",
		"perigee/internal/upstream/cloudcode",
		"perigee/internal/dialect/gemini",
		"perigee/internal/server/admin",
		"perigee/internal/server/mount",
		"perigee/internal/lib/rawjson",
		"perigee/internal/route/record",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/sse",
		"perigee/internal/observe/trace",
		"perigee/internal/observe/trace/shrink",
	}},
	{"perigee/internal/observe/trace/story", "tells a call, wherever its record came from", []string{
		"perigee",
		"perigee/internal/lib/terminal",
		"perigee/internal/observe/trace",
	}},
	{"perigee/internal/observe/trace/tail", "tells of calls as they happen", []string{
		"perigee",
		"perigee/internal/server/mount",
		"perigee/internal/observe/live",
		"perigee/internal/lib/match",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/observe/live", "follows calls, whatever shows them", []string{
		"perigee",
	}},
	{"perigee/internal/route/record", "recording watches any upstream, into any store", []string{
		"perigee",
		"perigee/internal/store/batchwriter",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/observe/secrets", "lists what has to be redacted", []string{
		"perigee",
		"perigee/internal/store/config",
		"perigee/internal/lib/redact",
	}},
	{"perigee/internal/observe/trace/bundle", "packs files without secrets", []string{
		"perigee",
		"perigee/internal/server/admin",
		"perigee/internal/server/mount",
		"perigee/internal/lib/redact",
		"perigee/internal/observe/secrets",
		"perigee/internal/observe/trace",
	}},
	{"perigee/internal/observe/trace", "files of calls, whatever is called", []string{
		"perigee",
		"perigee/internal/lib/diskspace",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/redact",
		"golang.org/x/sys",
	}},

	// Edges.
	{"perigee/internal/lib/wire", "connections and streams, whatever is said on them", []string{
		"perigee",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/sse",
		"golang.org/x/sys",
	}},
	{"perigee/internal/upstream/gemini", "its wire is the Gemini dialect over event streams", []string{
		"perigee",
		"perigee/internal/adapt",
		"perigee/internal/dialect/gemini",
		"perigee/internal/adapt/models",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/sse",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/upstream/antigravity", "its wire is the Gemini dialect in an envelope", []string{
		"perigee",
		"perigee/internal/account/pool",
		"perigee/internal/adapt",
		"perigee/internal/upstream/cloudcode",
		"perigee/internal/dialect/gemini",
		"perigee/internal/route/hold",
		"perigee/internal/adapt/models",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/redact",
		"perigee/internal/adapt/schema",
		"perigee/internal/lib/sse",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/lib/peeruser", "users of connections, whatever is served over them", []string{
		"golang.org/x/sys/unix",
	}},
	{"perigee/internal/langserver/extserver/topics", "rows and their readers, whatever they are sent over", nil},
	{"perigee/internal/langserver/extserver", "it answers the language server, and knows neither its process nor its upstream", []string{
		"perigee",
		"perigee/gen/exa/codeium_common_pb",
		"perigee/gen/exa/extension_server_pb",
		"perigee/gen/exa/extension_server_pb/extensionserverpbconnect",
		"perigee/gen/exa/language_server_pb",
		"perigee/gen/exa/unified_state_sync_pb",
		"perigee/internal/langserver/connectframe",
		"perigee/internal/lib/connlimit",
		"perigee/internal/langserver/extserver/topics",
		"perigee/internal/lib/filetool",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/peeruser",
		"perigee/internal/lib/procgroup",
		"perigee/internal/lib/redact",
		"connectrpc.com/connect",
		"google.golang.org/protobuf",
	}},
	{"perigee/internal/langserver/discover", "finds what a running IDE has started, and stops nothing", []string{
		"perigee",
		"perigee/internal/langserver/lsclient",
	}},
	{"perigee/internal/mcp/bridge", "finds windows of editors and asks them, whatever the asks are for", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/cli",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/peeruser",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/terminal",
		"github.com/coder/websocket",
	}},
	{"perigee/internal/testing/bridgetest", "a window for tests, which shares no code with what it tests", []string{
		"perigee/internal/testing/perigeetest/await",
		"github.com/coder/websocket",
	}},
	{"perigee/internal/langserver/lsclient", "calls a language server, wherever that runs", []string{
		"perigee",
		"perigee/gen/...",
		"perigee/internal/lib/peeruser",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/redact",
		"google.golang.org/protobuf",
	}},
	{"perigee/internal/langserver/trajectory", "conversations are followed in any source; errors of Google's APIs are classified in one place", []string{
		"perigee",
		"perigee/gen/...",
		"perigee/internal/adapt/providererr",
		"google.golang.org/protobuf",
		"modernc.org/sqlite",
	}},
	{"perigee/internal/langserver/trajectory/find", "recognises a conversation by what all sources say of it", []string{
		"perigee",
		"perigee/gen/exa/jetski_cortex_pb",
		"perigee/gen/exa/unified_state_sync_pb",
		"perigee/gen/gemini_coder",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/langserver/trajectory",
		"perigee/internal/lib/vscdb",
		"google.golang.org/protobuf",
	}},
	{"perigee/internal/store/vault", "it seals secrets for whoever keeps them", []string{
		"perigee",
		"perigee/internal/lib/atomicfile",
		"github.com/zalando/go-keyring",
		"golang.org/x/crypto",
	}},
	{"perigee/internal/lib/vscdb", "reads the database of an IDE for the packages that know what is in it", []string{
		"modernc.org/sqlite",
	}},
	{"perigee/internal/account/oauth", "signing in ends with an account, whoever uses it", []string{
		"perigee",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/steadyclock",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/account/accountfile", "it reads and writes the files in which accounts travel", []string{
		"perigee",
		"perigee/internal/account/pool",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/account/oauth",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/lib/vscdb",
	}},
	{"perigee/internal/upstream/conversation", "its wire is a conversation; a client has it", []string{
		"perigee",
		"perigee/gen/...",
		"perigee/internal/intercept/cloud",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/lib/lru",
		"perigee/internal/adapt/models",
		"perigee/internal/adapt/providererr",
		"perigee/internal/lib/rawjson",
		"perigee/internal/langserver/trajectory",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/server/fetch", "it reads the web for whoever asks, and knows no dialect", []string{
		"perigee",
		"perigee/internal/lib/netguard",
	}},
	{"perigee/internal/server/imagestore", "files in a directory", nil},
	{"perigee/internal/server", "it serves every dialect and knows no upstream", []string{
		"perigee",
		"perigee/internal/dialect/...",
		"perigee/internal/server/...",
		"perigee/internal/lib/match",
		"perigee/internal/server/membudget",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/server/mount", "handlers and the server know each other through it", []string{
		"perigee",
		"perigee/internal/lib/match",
	}},
	{"perigee/internal/server/clientkey", "keys and their limits, whatever they are used for", []string{
		"perigee",
		"perigee/internal/lib/match",
	}},
	{"perigee/internal/server/reqbody", "reads bodies, whatever is in them", []string{
		"perigee",
	}},
	{"perigee/internal/server/responsesocket", "messages and their order; the server answers them", []string{
		"perigee",
		"perigee/internal/dialect/openai/responses",
		"perigee/internal/server/reqbody",
		"perigee/internal/server/membudget",
		"github.com/coder/websocket",
	}},
	{"perigee/internal/server/pages", "lists of models and the like, mounted into the server", []string{
		"perigee",
		"perigee/internal/dialect/...",
		"perigee/internal/server/clientkey",
		"perigee/internal/server/mount",
		"perigee/internal/lib/match",
	}},
	{"perigee/internal/server/browserguard", "which web pages may call, whatever they call", []string{
		"perigee",
		"perigee/internal/server/mount",
		"perigee/internal/lib/netguard",
	}},
	{"perigee/internal/server/storedresponse", "what the Responses API keeps, mounted into the server", []string{
		"perigee",
		"perigee/internal/dialect/openai",
		"perigee/internal/dialect/openai/responses",
		"perigee/internal/server/mount",
		"perigee/internal/server/reqbody",
		"perigee/internal/server/membudget",
	}},
	{"perigee/internal/server/imagelink", "links to images and what is behind them, mounted into the server", []string{
		"perigee",
		"perigee/internal/dialect/media",
		"perigee/internal/server/mount",
	}},
	{"perigee/internal/server/admin", "pages about perigee itself, mounted into the server", []string{
		"perigee",
		"perigee/internal/lib/csvtable",
		"perigee/internal/server/mount",
	}},
	{"perigee/internal/store/sqlstore", "the only package that knows tables", []string{
		"perigee",
		"perigee/internal/store/sqlstore/engine",
		"perigee/internal/store/sqlstore/segment",
	}},
	{"perigee/internal/store/sqlstore/segment", "cuts responses, whatever they are stored in", []string{
		"perigee",
		"perigee/internal/lib/rawjson",
	}},
	{"perigee/internal/store/sqlstore/engine", "opens databases and runs statements", []string{
		"perigee",
		"perigee/internal/lib/diskspace",
		"github.com/jackc/pgx/v5",
		"modernc.org/sqlite",
	}},
	{"perigee/internal/store/config", "the only package that reads the configuration file", []string{
		"perigee",
		"perigee/internal/store/config/field",
		"perigee/internal/store/config/value",
		"perigee/internal/store/config/yamltree",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/match",
		"perigee/internal/adapt/models",
		"perigee/internal/lib/netguard",
		"perigee/internal/adapt/price",
		"go.yaml.in/yaml/v3",
	}},
	{"perigee/internal/store/config/field", "reads the tags of settings, whatever they are for", []string{
		"go.yaml.in/yaml/v3",
		"perigee",
		"perigee/internal/store/config/value",
	}},
	{"perigee/internal/store/config/value", "single values, wherever they are set; what a seal key looks like only vault knows", []string{
		"perigee/internal/lib/hostglob",
		"perigee/internal/lib/netguard",
		"perigee/internal/store/vault",
		"golang.org/x/net",
	}},
	{"perigee/internal/store/config/yamltree", "YAML, whatever it says", []string{
		"go.yaml.in/yaml/v3",
	}},
	{"perigee/internal/simulator", "the provider's stand-in shares no code with what it judges, but for framing", []string{
		"perigee/internal/simulator/rules",
		"perigee/internal/lib/sse",
		"go.yaml.in/yaml/v3",
	}},
	{"perigee/internal/langserver/matrixtest", "only tests, which hold the parts against every kind of language server", nil},
	{"perigee/internal/simulator/standin", "the stand-in shares no code with what it is tested against, but for messages", []string{
		"perigee/gen/...",
		"connectrpc.com/connect",
		"google.golang.org/protobuf",
		"modernc.org/sqlite",
	}},
	{"perigee/internal/simulator/rules", "the provider's rules are judged independently of our codecs", nil},

	{"perigee/internal/langserver/supervisor", "it supervises a process, and asks it nothing itself", []string{
		"perigee",
		"perigee/gen/exa/codeium_common_pb",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/langserver/discover",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/langserver/probe",
		"perigee/internal/lib/procgroup",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/runas",
		"golang.org/x/sys",
		"google.golang.org/protobuf",
	}},
	{"perigee/internal/langserver/probe", "it learns what a binary is by running it, and starts no language server", []string{
		"perigee",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/lib/procgroup",
		"perigee/internal/lib/redact",
	}},

	{"perigee/internal/account/roster", "accounts are kept for any upstream that has some", []string{
		"perigee",
		"perigee/internal/account/pool",
		"perigee/internal/store/audit",
		"perigee/internal/store/config",
		"perigee/internal/lib/match",
		"perigee/internal/account/oauth",
		"perigee/internal/account/accountfile",
		"perigee/internal/adapt/providererr",
		"perigee/internal/store/sqlstore",
	}},

	{"perigee/internal/langserver/signin", "chooses the account of a language server, whatever that does with it", []string{
		"perigee",
		"perigee/internal/account/roster",
		"perigee/internal/lib/steadyclock",
	}},

	// Wiring.
	{"perigee/internal/intercept/truststore", "trust stores, whatever CA they are to trust", []string{
		"perigee/internal/lib/atomicfile",
		"perigee/internal/lib/procgroup",
		"modernc.org/sqlite",
	}},
	{"perigee/internal/cli/trustinstall", "trusts the CA of interception, and intercepts nothing", []string{
		"perigee/internal/cli",
		"perigee/internal/lib/hostglob",
		"perigee/internal/intercept/authority",
		"perigee/internal/lib/terminal",
		"perigee/internal/intercept/truststore",
	}},
	{"perigee/internal/cli/mitmcmd", "puts the parts of interception without the gateway together", []string{
		"perigee",
		"perigee/internal/cli",
		"perigee/internal/cli/report",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/hostglob",
		"perigee/internal/intercept/mitm",
		"perigee/internal/intercept/authority",
		"perigee/internal/intercept/flows",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/terminal",
	}},
	{"perigee/internal/intercept/flows", "records what passes a handler, whatever handler that is", []string{
		"perigee",
		"perigee/internal/lib/redact",
		"perigee/internal/lib/terminal",
		"github.com/andybalholm/brotli",
	}},
	{"perigee/internal/intercept/mitm", "HTTP and TLS between programs and servers, whatever they say", []string{
		"perigee/internal/lib/hostglob",
		"perigee/internal/intercept/authority",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/redact",
		"golang.org/x/sys/unix",
	}},
	{"perigee/internal/testing/mitmfront", "puts the proxy in front of a server, for programs that check HTTP", []string{
		"perigee/internal/lib/hostglob",
		"perigee/internal/intercept/mitm",
		"perigee/internal/intercept/authority",
	}},
	{"perigee/internal/testing/h2spec", "builds and runs h2spec from outside", []string{
		"perigee/internal/testing/mitmfront",
		"perigee/internal/testing/testenv",
	}},
	{"perigee/internal/intercept/authority", "certificates for hosts, whatever is served with them", []string{
		"perigee/internal/lib/atomicfile",
		"perigee/internal/lib/hostglob",
		"perigee/internal/lib/lru",
	}},
	{"perigee/internal/intercept/cloud", "passes calls of a language server on, and starts neither", []string{
		"perigee",
		"perigee/internal/lib/lru",
		"perigee/internal/intercept/mitm",
		"perigee/internal/lib/netguard",
		"perigee/internal/lib/peeruser",
		"perigee/internal/lib/rawjson",
		"github.com/andybalholm/brotli",
	}},
	{"perigee/internal/mcp/ask", "a prompt and its answer, whatever answers it; each ask is a recorded call", []string{
		"perigee",
		"perigee/internal/lib/lru",
		"perigee/internal/route/record",
	}},
	{"perigee/internal/mcp/mcpserver", "MCP: tools, sessions and transports, whatever is behind them", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/lib/filetool",
		"perigee/internal/testing/mcpfixtures",
		"perigee/internal/mcp/lineconn",
		"github.com/google/jsonschema-go/jsonschema",
		"github.com/modelcontextprotocol/go-sdk/...",
	}},
	{"perigee/internal/mcp/lineconn", "messages of MCP as lines, whatever they say", []string{
		"perigee/internal/lib/rawjson",
		"github.com/modelcontextprotocol/go-sdk/...",
	}},
	{"perigee/internal/testing/mcpfixtures", "what the conformance suite asks for by name", []string{
		"github.com/modelcontextprotocol/go-sdk/...",
	}},
	{"perigee/internal/mcp/ask/model", "a model answers, whatever upstream has it", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/adapt/models",
	}},
	{"perigee/internal/mcp/ask/relay", "carries asks to any asker over HTTP", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/server/mount",
	}},
	{"perigee/internal/mcp/ask/agent", "an agent answers, wherever its language server runs", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/adapt/providererr",
		"perigee/internal/langserver/trajectory",
	}},
	{"perigee/internal/lib/filetool/ignore", "rules of ignore files, wherever the files are", nil},
	{"perigee/internal/lib/filetool", "files inside directories, for whatever protocol", []string{
		"perigee",
		"perigee/internal/lib/filetool/ignore",
		"github.com/bmatcuk/doublestar/v4",
		"golang.org/x/sys",
	}},
	{"perigee/internal/upstream/ide", "the windows of an IDE, put together: announcements, language servers, and the agent behind both", []string{
		"perigee",
		"perigee/gen/...",
		"perigee/internal/mcp/ask",
		"perigee/internal/mcp/ask/agent",
		"perigee/internal/mcp/bridge",
		"perigee/internal/langserver/discover",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/lib/lru",
		"perigee/internal/langserver/trajectory",
		"perigee/internal/langserver/trajectory/find",
		"perigee/internal/upstream/conversation",
	}},
	{"perigee/internal/mcp/backend", "answers MCP clients, from the daemon or without one", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/mcp/bridge",
		"perigee/internal/store/config",
		"perigee/internal/lib/filetool",
		"perigee/internal/lib/match",
		"perigee/internal/mcp/mcpserver",
	}},
	{"perigee/internal/cli/mcpcmd", "perigee mcp, wherever its answers come from", []string{
		"perigee/internal/cli",
		"perigee/internal/lib/filetool",
		"perigee/internal/mcp/mcpserver",
	}},
	{"perigee/internal/daemon/owner", "what the owner's MCP clients reach, with a daemon and without one", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/daemon",
		"perigee/internal/daemon/remote",
		"perigee/internal/mcp/backend",
	}},
	{"perigee/internal/upstream/headless", "puts the parts of one language server together, and the gateway upstream that it carries requests for", []string{
		"perigee",
		"perigee/internal/account/pool",
		"perigee/internal/account/roster",
		"perigee/internal/mcp/ask",
		"perigee/internal/mcp/ask/agent",
		"perigee/internal/upstream/cloudcode",
		"perigee/internal/store/config",
		"perigee/internal/dialect/gemini",
		"perigee/internal/langserver/extserver",
		"perigee/internal/lib/hostglob",
		"perigee/internal/intercept/cloud",
		"perigee/internal/langserver/supervisor",
		"perigee/internal/langserver/discover",
		"perigee/internal/langserver/lsclient",
		"perigee/internal/langserver/probe",
		"perigee/internal/langserver/signin",
		"perigee/internal/lib/lru",
		"perigee/internal/intercept/mitm",
		"perigee/internal/intercept/authority",
		"perigee/internal/adapt/models",
		"perigee/internal/lib/peeruser",
		"perigee/internal/adapt/providererr",
		"perigee/internal/route/record",
		"perigee/internal/intercept/redirect",
		"perigee/internal/lib/runas",
		"perigee/internal/lib/sse",
		"perigee/internal/upstream/antigravity",
		"perigee/internal/upstream/conversation",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/daemon", "puts everything together", []string{
		"perigee",
		"perigee/internal/...",
	}},
	{"perigee/internal/daemon/gateway", "the only package that imports all upstreams; knows neither clients nor what is recorded of calls", []string{
		"perigee",
		"perigee/internal/account/pool",
		"perigee/internal/account/roster",
		"perigee/internal/store/config",
		"perigee/internal/upstream/headless",
		"perigee/internal/upstream/ide",
		"perigee/internal/langserver/supervisor",
		"perigee/internal/account/oauth",
		"perigee/internal/route",
		"perigee/internal/simulator",
		"perigee/internal/store/sqlstore",
		"perigee/internal/route/stopseq",
		"perigee/internal/route/thoughtsig",
		"perigee/internal/upstream/antigravity",
		"perigee/internal/upstream/gemini",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/testing/testenv", "programs that drive the built binary from outside use it", nil},
	{"perigee/internal/testing/daemontest", "what tests of the daemon share", []string{
		"perigee",
		"perigee/internal/store/config",
		"perigee/internal/daemon",
		"perigee/internal/testing/perigeetest",
		"perigee/internal/testing/perigeetest/await",
		"perigee/internal/simulator",
		"perigee/internal/simulator/standin",
		"perigee/internal/simulator/rules",
		"perigee/internal/store/sqlstore",
		"perigee/internal/store/vault",
		"go.uber.org/goleak",
	}},
	{"perigee/internal/daemon/accounttests", "tests alone", nil},
	{"perigee/internal/daemon/limittests", "tests alone", nil},
	{"perigee/internal/daemon/prooftests", "tests alone", nil},
	{"perigee/internal/daemon/reloadtests", "tests alone", nil},
	{"perigee/internal/daemon/keeper", "what a data directory holds, with a daemon and without one", []string{
		"perigee",
		"perigee/internal/store/config",
		"perigee/internal/store/datadir",
		"perigee/internal/server",
		"perigee/internal/server/admin",
		"perigee/internal/server/imagestore",
		"perigee/internal/store/sqlstore",
		"perigee/internal/route/thoughtsig",
		"perigee/internal/observe/trace",
	}},
	{"perigee/internal/observe/metrics", "counts calls and shows numbers that the daemon gives it", []string{
		"perigee",
		"perigee/internal/server/mount",
		"github.com/prometheus/client_golang",
		"github.com/prometheus/client_model", // in tests
		"github.com/prometheus/common",       // in tests
	}},
	{"perigee/internal/observe/dashboard", "gathers what pages show, whatever has the data", []string{
		"perigee",
		"perigee/internal/store/audit",
		"perigee/internal/store/config",
		"perigee/internal/cli/connect",
		"perigee/internal/observe/dashboard/pages",
		"perigee/internal/observe/dashboard/session",
		"perigee/internal/observe/dashboard/view",
		"perigee/internal/server/admin",
		"perigee/internal/server/mount",
		"perigee/internal/observe/live",
	}},
	{"perigee/internal/observe/dashboard/html", "escapes values, whatever page they are on", nil},
	{"perigee/internal/observe/dashboard/pages", "markup of what is gathered; it asks for nothing", []string{
		"perigee",
		"perigee/internal/store/config",
		"perigee/internal/observe/dashboard/html",
		"perigee/internal/observe/dashboard/view",
	}},
	{"perigee/internal/observe/dashboard/session", "knows browsers, whatever they may see", []string{
		"perigee",
	}},
	{"perigee/internal/observe/dashboard/view", "numbers, charts and conversations for people, without a page around them", []string{
		"perigee",
	}},
	{"perigee/internal/observe/telemetry", "sends spans of calls to a collector", []string{
		"perigee",
		"perigee/internal/lib/wire",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/proto/otlp",
		"google.golang.org/protobuf",
	}},
	{"perigee/internal/daemon/observe", "puts together what follows calls, for the daemon", []string{
		"perigee",
		"perigee/internal/store/audit",
		"perigee/internal/mcp/bridge",
		"perigee/internal/store/config",
		"perigee/internal/observe/dashboard",
		"perigee/internal/observe/dashboard/session",
		"perigee/internal/store/datadir",
		"perigee/internal/server/mount",
		"perigee/internal/server/pages",
		"perigee/internal/observe/live",
		"perigee/internal/intercept/authority",
		"perigee/internal/observe/metrics",
		"perigee/internal/adapt/models",
		"perigee/internal/adapt/price",
		"perigee/internal/route/record",
		"perigee/internal/lib/redact",
		"perigee/internal/observe/secrets",
		"perigee/internal/observe/telemetry",
		"perigee/internal/observe/trace",
		"perigee/internal/observe/trace/bundle",
		"perigee/internal/observe/trace/replay",
		"perigee/internal/observe/trace/tail",
	}},
	{"perigee/internal/daemon/remote", "a client of the daemon, which knows none of its parts", []string{
		"perigee",
		"perigee/internal/mcp/ask",
		"perigee/internal/mcp/ask/relay",
	}},
	{"perigee/internal/daemon/running", "finds and stops the process of a daemon, of which it knows the files", []string{
		"perigee",
		"perigee/internal/daemon/remote",
		"perigee/internal/store/datadir",
		"golang.org/x/sys",
	}},
	{"perigee/internal/testing/perigeetest/await", "waits of tests, whatever they test", nil},
	{"perigee/internal/testing/perigeetest/dbtest", "databases for tests, whatever they test", []string{
		"github.com/jackc/pgx/v5",
		"modernc.org/sqlite",
	}},
	{"perigee/internal/testing/perigeetest", "what tests share", []string{
		"perigee/internal/testing/perigeetest/await",
		"perigee/internal/testing/testenv",
		"perigee",
		"github.com/rogpeppe/go-internal",
		"golang.org/x/sys",
		"golang.org/x/tools",
	}},
	{"perigee/internal/cli/command", "what commands share", []string{
		"perigee",
		"perigee/internal/cli",
		"perigee/internal/store/config",
		"perigee/internal/daemon",
		"perigee/internal/daemon/running",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/match",
		"perigee/internal/store/sqlstore",
		"perigee/internal/lib/terminal",
	}},
	{"perigee/internal/cli/doctor", "checks have their inputs from a command, and know no daemon", []string{
		"perigee",
		"perigee/internal/mcp/bridge",
		"perigee/internal/cli",
		"perigee/internal/store/config",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/diskspace",
		"perigee/internal/langserver/probe",
		"perigee/internal/lib/netguard",
		"perigee/internal/intercept/redirect",
		"perigee/internal/store/sqlstore",
		"perigee/internal/lib/terminal",
		"perigee/internal/intercept/truststore",
		"perigee/internal/cli/trustinstall",
		"golang.org/x/sys",
	}},
	{"perigee/internal/cli/connectcmd", "a command", []string{
		"perigee",
		"perigee/internal/lib/atomicfile",
		"perigee/internal/cli",
		"perigee/internal/cli/command",
		"perigee/internal/store/config",
		"perigee/internal/cli/connect",
		"perigee/internal/cli/connect/lease",
		"perigee/internal/daemon",
		"perigee/internal/store/datadir",
		"perigee/internal/lib/match",
		"perigee/internal/adapt/models",
		"perigee/internal/lib/procgroup",
		"perigee/internal/lib/redact",
		"perigee/internal/simulator",
		"perigee/internal/lib/terminal",
		"perigee/internal/observe/trace",
	}},
	{"perigee/internal/cli/completioncmd", "a command", []string{
		"perigee",
		"perigee/internal/cli",
		"perigee/internal/cli/completion",
		"perigee/internal/cli/command",
		"perigee/internal/store/config",
		"perigee/internal/cli/connect",
		"perigee/internal/daemon",
		"perigee/internal/store/sqlstore",
	}},
	{"perigee/internal/cli/doctorcmd", "a command", []string{
		"perigee",
		"perigee/internal/mcp/bridge",
		"perigee/internal/cli",
		"perigee/internal/cli/command",
		"perigee/internal/store/config",
		"perigee/internal/cli/connect",
		"perigee/internal/daemon",
		"perigee/internal/daemon/remote",
		"perigee/internal/daemon/running",
		"perigee/internal/store/datadir",
		"perigee/internal/cli/doctor",
		"perigee/internal/lib/hostglob",
		"perigee/internal/lib/redact",
		"perigee/internal/intercept/redirect",
		"perigee/internal/simulator",
		"perigee/internal/lib/terminal",
		"perigee/internal/intercept/truststore",
		"perigee/internal/cli/trustinstall",
		"perigee/internal/lib/wire",
	}},
	{"perigee/internal/cli/dashboardcmd", "a command", []string{
		"perigee/internal/cli",
		"perigee/internal/cli/command",
		"perigee/internal/daemon",
		"perigee/internal/daemon/remote",
		"perigee/internal/observe/dashboard",
	}},
	{"perigee/internal/cli/tracecmd", "a command", []string{
		"perigee",
		"perigee/internal/mcp/bridge",
		"perigee/internal/cli",
		"perigee/internal/cli/report",
		"perigee/internal/cli/command",
		"perigee/internal/store/config",
		"perigee/internal/daemon",
		"perigee/internal/daemon/remote",
		"perigee/internal/store/datadir",
		"perigee/internal/server/admin",
		"perigee/internal/observe/live",
		"perigee/internal/lib/redact",
		"perigee/internal/observe/secrets",
		"perigee/internal/store/sqlstore",
		"perigee/internal/lib/terminal",
		"perigee/internal/observe/trace",
		"perigee/internal/observe/trace/...",
		"perigee/internal/store/vault",
	}},
	{"perigee/internal/cli/usagecmd", "a command", []string{
		"perigee",
		"perigee/internal/account/roster",
		"perigee/internal/cli",
		"perigee/internal/cli/report",
		"perigee/internal/cli/command",
		"perigee/internal/store/config",
		"perigee/internal/daemon",
		"perigee/internal/lib/match",
		"perigee/internal/store/sqlstore",
		"perigee/internal/lib/terminal",
	}},
	{"perigee/cmd/perigee", "commands are thin", []string{
		"perigee/internal/cli/command",
		"perigee/internal/cli/...",
		"perigee",
		"perigee/internal/mcp/bridge",
		"perigee/internal/account/roster",
		"perigee/internal/cli",
		"perigee/internal/cli/report",
		"perigee/internal/store/config",
		"perigee/internal/daemon",
		"perigee/internal/daemon/owner",
		"perigee/internal/lib/hostglob",
		"perigee/internal/server",
		"perigee/internal/server/admin",
		"perigee/internal/langserver/supervisor",
		"perigee/internal/langserver/probe",
		"perigee/internal/lib/match",
		"perigee/internal/mcp/backend",
		"perigee/internal/cli/mcpcmd",
		"perigee/internal/cli/mitmcmd",
		"perigee/internal/lib/netguard",
		"perigee/internal/intercept/redirect",
		"perigee/internal/simulator",
		"perigee/internal/simulator/standin",
		"perigee/internal/store/sqlstore",
		"perigee/internal/daemon/systemd",
		"perigee/internal/lib/terminal",
		"perigee/internal/intercept/truststore",
		"perigee/internal/cli/trustinstall",
	}},
	{"perigee/bench/chaos", "drives the built binary from outside", []string{
		"perigee/internal/testing/testenv",
		"github.com/coder/websocket",
		"golang.org/x/sys",
		"modernc.org/sqlite",
	}},
	{"perigee/bench", "measures from outside", []string{
		"perigee",
		"perigee/bench/internal/...",
		"perigee/internal/...",
	}},
	{"perigee/internal/testing/conformance", "builds and runs the suite from outside", []string{
		"perigee/internal/testing/mitmfront",
		"perigee/internal/lib/procgroup",
		"google.golang.org/protobuf",
	}},
	{"perigee/e2e", "drives the built binary from outside", []string{
		"perigee/internal/lib/procgroup",
		"perigee/internal/testing/testenv",
		"github.com/modelcontextprotocol/go-sdk",
		"golang.org/x/sys",
	}},
}

// trees are paths whose rule holds for the packages below them as well.
var trees = []string{"perigee/bench", "perigee/gen"}

// TestDependencies fails with the reason of the rule for each import that a rule does not allow.
func TestDependencies(t *testing.T) {
	for _, p := range listPackages(t) {
		i := slices.IndexFunc(rules, func(r rule) bool {
			return r.path == p.ImportPath || strings.HasPrefix(p.ImportPath, r.path+"/") && slices.Contains(trees, r.path)
		})
		if i < 0 {
			t.Errorf("package %s is not in the table of rules; add it with what it may import, and why", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !foreign(imported) || slices.ContainsFunc(rules[i].imports,
				func(allowed string) bool { return allows(allowed, imported) }) {
				continue
			}
			t.Errorf("%s imports %s: %s", p.ImportPath, imported, rules[i].reason)
		}
	}
}

// TestTheLinkerCanDropMethods keeps text/template, and html/template with it, out of the program. It calls methods by names that
// are known at run time only. If that is reachable, the linker keeps the exported methods of all types: 3.6 MB of the 40 MB that the
// binary may have.
func TestTheLinkerCanDropMethods(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "./cmd/perigee").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "perigee/internal/observe/dashboard") {
		t.Errorf("go list names %d packages, without the dashboard", len(packages))
	}
	for _, path := range []string{"text/template", "html/template"} {
		if slices.Contains(packages, path) {
			t.Errorf("perigee depends on %s, which makes the binary 3.6 MB larger; internal/observe/dashboard/html writes HTML without it", path)
		}
	}
}

// TestRulesNameExistingPackages fails for a rule whose package is gone.
func TestRulesNameExistingPackages(t *testing.T) {
	packages := listPackages(t)
	for _, r := range rules {
		if !slices.ContainsFunc(packages, func(p listed) bool {
			return p.ImportPath == r.path || strings.HasPrefix(p.ImportPath, r.path+"/") && slices.Contains(trees, r.path)
		}) {
			t.Errorf("the table of rules has %s, but there is no such package", r.path)
		}
	}
}

// TestPackagesSayWhatTheyAreFor asks every package for its opening comment.
func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for _, p := range listPackages(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 && !strings.HasPrefix(p.ImportPath, "perigee/gen/") {
			t.Errorf("package %s has no opening comment", p.ImportPath)
		}
	}
}

func allows(allowed, imported string) bool {
	if prefix, ok := strings.CutSuffix(allowed, "/..."); ok {
		return strings.HasPrefix(imported, prefix+"/")
	}
	return imported == allowed || (strings.Contains(allowed, ".") && strings.HasPrefix(imported, allowed+"/"))
}

// foreign says whether an import is not of the standard library.
func foreign(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == "perigee" || strings.Contains(first, ".")
}

type listed struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	all, err := goList()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

var goList = sync.OnceValues(func() (all []listed, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Doc,Imports,GoFiles", "./...").Output()
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})
