package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"perigee"
	codeiumcommonpb "perigee/gen/exa/codeium_common_pb"
	"perigee/internal/langserver/discover"
	"perigee/internal/langserver/lsclient"
	"perigee/internal/langserver/probe"
)

const (
	productName = "antigravity"
	appDataDir  = "perigee" // a name below ~/.gemini, so that data of an IDE is never used
	apiServer   = "https://generativelanguage.googleapis.com"
)

// prepare makes the directories and the command line of the next process.
func (s *Supervisor) prepare(ctx context.Context) (launch, error) {
	l := launch{dir: cmp.Or(s.o.Workspace, s.o.Home), csrf: perigee.NewSecret(lsclient.NewID())}
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
	l.out.found = func(e Endpoint) { s.addPrinted(l.out, e) }
	if s.log.Enabled(ctx, slog.LevelDebug) {
		l.out.print = func(line string) { s.log.Debug("language server output", "line", s.redacted(line)) }
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

// directories makes the directories of the next process, and removes directories of processes that
// have ended.
func (s *Supervisor) directories(ctx context.Context) (*tempDir, error) {
	temp := filepath.Join(s.o.Home, "tmp")
	if s.o.User != nil {
		return s.directoriesOfUser(ctx, temp)
	}
	for _, dir := range []string{s.o.Home, temp} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	removeAbandoned(ctx, temp, temp, nil)
	return newTempDir(ctx, temp)
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

// arguments returns the flags of a profile in the order of the official programs, then the flags
// of the configuration.
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
			f.set("workspace_id", discover.WorkspaceID(s.o.Workspace))
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

// loopback hosts are never reached through a proxy.
var loopback = []string{"127.0.0.1", "localhost", "::1"}

// environment returns the whole environment of a process. Only PATH and LANG are taken from the
// environment of perigee.
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

// metadata returns the message that a process of profile classic reads from stdin before it
// starts.
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

// announced reads the file in which a process in persistent mode announces its ports.
func (s *Supervisor) announced(pid int) (Endpoint, bool) {
	id := ""
	if s.o.Workspace != "" {
		id = discover.WorkspaceID(s.o.Workspace)
	}
	for _, id := range slices.Compact([]string{id, ""}) {
		announced, e, ok := discover.Announced(s.o.Home, appDataDir, id)
		if ok && announced == pid && e.Known() {
			return e, true
		}
	}
	return Endpoint{}, false
}
