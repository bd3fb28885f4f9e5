package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"google.golang.org/protobuf/proto"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	"perigee/internal/langserver/probe"
)

const (
	productName = "antigravity"
	appDataDir  = "perigee" // a name below ~/.gemini, so that data of an IDE is never used
	apiServer   = "https://generativelanguage.googleapis.com"
)

// prepare makes the directories and the command line of the next process.
func (s *Supervisor) prepare(ctx context.Context) (launch, error) {
	l := launch{dir: cmp.Or(s.o.Workspace, s.o.Home), csrf: perigee.NewSecret(newToken())}
	var err error
	if l.temp, err = s.directories(ctx); err != nil {
		return launch{}, fmt.Errorf("it cannot be started: %w", err)
	}
	s.mu.Lock()
	found := s.probe
	s.mu.Unlock()
	if found.Version == "" {
		s.log.Warn("language server version unknown", "hint", "set version: to that of the installed product, such as version: 1.20.5")
	}
	if found.Accepts("parent_pipe_path") {
		if l.pipe, err = listenParentPipe(s.o.User); err != nil {
			s.log.Warn("language server gets no parent pipe", "error", err)
		}
	}
	l.out = &output{}
	l.out.found = func(e Endpoint) { s.seen(l.out, e) }
	if s.log.Enabled(ctx, slog.LevelDebug) {
		l.out.print = func(line string) { s.log.Debug("language server output", "line", s.shown(line)) }
	}
	l.argv = append(slices.Clone(s.o.Command), s.arguments(found, l)...)
	l.env = s.environment(l)
	switch {
	case found.Profile == probe.Classic:
		l.input = metadata(found)
	case found.Accepts("exit_on_stdin_close"):
		l.holdInput = true
	default:
		l.holdInput = s.holdInput
	}
	if err := l.writeScript(ctx); err != nil {
		l.remove()
		return launch{}, fmt.Errorf("it cannot be started: %w", err)
	}
	return l, nil
}

// directories makes the directories of the next process, and removes those of processes that have ended.
func (s *Supervisor) directories(ctx context.Context) (*tempDir, error) {
	temp := cmp.Or(s.o.TempDir, filepath.Join(s.o.Home, "tmp"))
	if s.o.User != nil {
		return s.directoriesOfUser(ctx, temp)
	}
	for _, dir := range []string{s.o.Home, temp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	removeAbandoned(ctx, temp)
	return newTempDir(ctx, temp)
}

// newToken returns a random UUID.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// flags builds a command line from the flags that a binary accepts.
type flags struct {
	binary probe.Result
	args   []string
}

// set adds a flag with its value, unless the binary does not have it or the value is empty.
func (f *flags) set(name, value string) {
	if value != "" && f.binary.Accepts(name) {
		f.args = append(f.args, "--"+name, value)
	}
}

// enable adds a boolean flag, unless the binary does not have it.
func (f *flags) enable(name string) {
	if f.binary.Accepts(name) {
		f.args = append(f.args, "--"+name)
	}
}

// arguments returns the flags of a profile in the order of the official programs, then those of the configuration.
func (s *Supervisor) arguments(binary probe.Result, l launch) []string {
	f := flags{binary: binary}
	switch binary.Profile {
	case probe.Classic:
		f.enable("enable_lsp")
		f.set("csrf_token", l.csrf.Reveal())
		f.set("extension_server_port", strconv.Itoa(s.o.Extension.Port))
		f.set("extension_server_csrf_token", s.o.Extension.CSRF.Reveal())
		if binary.Accepts("random_port") {
			f.enable("random_port")
		} else {
			f.set("https_server_port", "0")
			f.set("http_server_port", "0")
			f.set("lsp_port", "0")
		}
		if s.o.Workspace != "" {
			f.set("workspace_id", workspaceID(s.o.Workspace))
		}
		f.set("cloud_code_endpoint", s.o.CloudEndpoint)
		f.set("subclient_type", "ide")
		f.set("app_data_dir", appDataDir)
		f.set("parent_pipe_path", l.pipe.path())
		f.enable("stdin_initial_metadata")
	case probe.Hub:
		f.enable("standalone")
		f.set("override_ide_name", productName)
		f.set("subclient_type", "hub")
		f.set("override_ide_version", binary.Version)
		f.set("override_user_agent_name", productName)
		f.set("https_server_port", "0")
		f.set("http_server_port", "0")
		f.set("csrf_token", l.csrf.Reveal())
		f.set("app_data_dir", appDataDir)
		f.set("api_server_url", apiServer)
		f.set("cloud_code_endpoint", s.o.CloudEndpoint)
		f.set("parent_pipe_path", l.pipe.path())
		f.enable("exit_on_stdin_close")
	}
	return append(f.args, s.o.Args...)
}

var (
	punctuation = regexp.MustCompile(`[^A-Za-z0-9]+`)
	reserved    = regexp.MustCompile(`[^A-Za-z0-9/._~-]`)
	drive       = regexp.MustCompile(`^[A-Za-z]:[\\/]`)
)

// workspaceID returns the name that the IDE gives to a workspace of one folder: its URI, as the editor encodes it, with _ for
// each run of punctuation.
func workspaceID(dir string) string {
	if drive.MatchString(dir) {
		dir = "/" + strings.ToLower(dir[:1]) + strings.ReplaceAll(dir[1:], `\`, "/")
	}
	encoded := reserved.ReplaceAllStringFunc(dir, func(r string) string {
		var b strings.Builder
		for i := range len(r) {
			fmt.Fprintf(&b, "%%%02X", r[i])
		}
		return b.String()
	})
	return punctuation.ReplaceAllString("file://"+encoded, "_")
}

// loopback is never asked through a proxy.
var loopback = []string{"127.0.0.1", "localhost", "::1"}

// environment returns the whole environment of a process. Only PATH and LANG come from that of perigee.
func (s *Supervisor) environment(l launch) []string {
	env := map[string]string{"HOME": s.o.Home, "TMPDIR": l.temp.path, "PWD": l.dir}
	for _, name := range []string{"PATH", "LANG"} {
		if value := os.Getenv(name); value != "" {
			env[name] = value
		}
	}
	if runtime.GOOS == "windows" {
		maps.Copy(env, map[string]string{
			"USERPROFILE": s.o.Home, "TEMP": l.temp.path, "TMP": l.temp.path,
			"APPDATA": filepath.Join(s.o.Home, "AppData", "Roaming"), "LOCALAPPDATA": filepath.Join(s.o.Home, "AppData", "Local"),
		})
	}
	maps.Copy(env, s.o.Variables)
	maps.Copy(env, s.o.Env)
	if s.o.User != nil && env[certificates] != "" {
		env[certificates] = s.certificateCopy()
	}
	hosts := strings.FieldsFunc(env["NO_PROXY"]+","+env["no_proxy"], func(r rune) bool { return r == ',' || r == ' ' })
	for _, host := range loopback {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	env["NO_PROXY"] = strings.Join(slices.Compact(hosts), ",")
	env["no_proxy"] = env["NO_PROXY"]
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// metadata is what a process of profile classic reads from stdin before it starts.
func metadata(binary probe.Result) []byte {
	m := &codeiumcommonpb.Metadata{IdeName: productName, IdeVersion: binary.Version, ExtensionName: productName}
	if bin := filepath.Dir(binary.Path); filepath.Base(bin) == "bin" && filepath.Base(filepath.Dir(bin)) == productName {
		m.ExtensionPath = filepath.Dir(bin)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil // only for text that is not UTF-8, which Marshal rejects
	}
	return text
}

// discovered reads the file in which a process in persistent mode tells its ports.
func (s *Supervisor) discovered(pid int) (Endpoint, bool) {
	id := ""
	if s.o.Workspace != "" {
		id = workspaceID(s.o.Workspace)
	}
	for _, id := range slices.Compact([]string{id, ""}) {
		sum := sha256.Sum256([]byte(id))
		text, err := readDiscovery(filepath.Join(s.o.Home, ".gemini", appDataDir, "daemon", "ls_"+hex.EncodeToString(sum[:8])+".json"))
		if err != nil {
			continue
		}
		var file struct {
			PID   int    `json:"pid"`
			HTTPS int    `json:"httpsPort"`
			HTTP  int    `json:"httpPort"`
			CSRF  string `json:"csrfToken"`
		}
		e := Endpoint{}
		if json.Unmarshal(text, &file) == nil && file.PID == pid {
			e = Endpoint{HTTP: file.HTTP, HTTPS: file.HTTPS, CSRF: perigee.NewSecret(file.CSRF)}
		}
		if e.known() {
			return e, true
		}
	}
	return Endpoint{}, false
}

// maxDiscovery bounds what is read of a discovery file.
const maxDiscovery = 64 << 10

// readDiscovery reads a file that the process has written. Another user, whose process it is, could have put a pipe or a device
// there.
func readDiscovery(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.LimitReader(f, maxDiscovery))
}
