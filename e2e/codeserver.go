package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

const codeServerInstall = "codeserver"

// installCodeServer makes code-server without its native modules, which take minutes to build and
// which the scenarios do not use: packages of its server that are loaded in any case are in the
// lock file, and the two that are native or large are replaced.
func installCodeServer(ctx context.Context) (fresh bool, err error) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return false, errors.New("only Node for Linux on x86-64 is installed")
	}
	if err := installNode(ctx); err != nil {
		return false, err
	}
	if fresh, err = installPackages(ctx, codeServerInstall); err != nil {
		return false, err
	}
	modules := cached(codeServerInstall, "node_modules")
	for name, code := range codeServerModules {
		dir := filepath.Join(modules, filepath.FromSlash(name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return false, err
		}
		manifest := fmt.Sprintf(`{"name": %q, "version": "0.0.0", "main": "index.js"}`, name)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "package.json"), []byte(manifest), 0o644),
			os.WriteFile(filepath.Join(dir, "index.js"), []byte(code), 0o644)); err != nil {
			return false, err
		}
	}
	// The server looks for packages beside itself.
	link := filepath.Join(modules, "code-server", "lib", "vscode", "node_modules")
	if _, err := os.Lstat(link); err != nil {
		if err := os.Symlink(filepath.Join("..", "..", ".."), link); err != nil {
			return false, err
		}
	}
	if _, err := exec.LookPath("chromium"); err != nil {
		if err := installDebian(ctx, "chromium"); err != nil {
			return false, err
		}
	}
	return fresh, buildExtensions(ctx)
}

// codeServerModules replace packages of the server: the writer of log files, which is native, and
// telemetry.
var codeServerModules = map[string]string{
	"@microsoft/1ds-core-js": "exports.AppInsightsCore = class {};\n",
	"@vscode/spdlog": `const fs = require("node:fs"), path = require("node:path");
class Logger {
  constructor(type, name, file) { this.file = file; this.level = 2; fs.mkdirSync(path.dirname(file), { recursive: true }); }
  write(level, text) { if (level >= this.level) fs.appendFileSync(this.file, text.endsWith("\n") ? text : text + "\n"); }
  trace(text) { this.write(0, text); }
  debug(text) { this.write(1, text); }
  info(text) { this.write(2, text); }
  warn(text) { this.write(3, text); }
  error(text) { this.write(4, text); }
  critical(text) { this.write(5, text); }
  getLevel() { return this.level; }
  setLevel(level) { this.level = level; }
  setPattern() {}
  clearFormatters() {}
  flush() {}
  drop() {}
}
exports.version = 1;
exports.setLevel = () => {};
exports.setFlushOn = () => {};
exports.Logger = Logger;
exports.createRotatingLogger = async (name, file) => new Logger("", name, file);
exports.createAsyncRotatingLogger = async (name, file) => new Logger("", name, file);
`,
}

// buildExtensions packs perigee's extension from this tree, as make extension does, and the
// stand-in of the IDE's own one.
func buildExtensions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for _, step := range []struct {
		dir  string
		argv []string
	}{
		{"vscode", []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"}},
		{"vscode", []string{"node", "esbuild.mjs", "--minify"}},
		{"vscode", []string{"node", "pack.mjs", cached(codeServerInstall, "perigee.vsix")}},
		{filepath.Join("vscode", "standin"), []string{"node", filepath.Join("..", "pack.mjs"), cached(codeServerInstall, "standin.vsix")}},
	} {
		cmd := exec.CommandContext(ctx, step.argv[0], step.argv[1:]...)
		cmd.Dir = step.dir
		if said, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s in %s: %w: %s", strings.Join(step.argv, " "), step.dir, err, lastBytes(string(said), 1000))
		}
	}
	return nil
}

// An editor is a code-server with both extensions, and a browser with its windows.
type editor struct {
	dir     string // its home, user data and extensions
	address string
	env     []string
	log     *os.File
	end     func()

	mu      sync.Mutex // of the browser, which does one command at a time
	browser *exec.Cmd
	stdin   io.WriteCloser
	answers *bufio.Reader
}

// newEditor installs the extensions, and starts code-server and the browser. Settings are for the
// user and for the machine: editors read those that name programs and addresses from the latter if
// the window is a remote one, as windows of code-server are.
func newEditor(ctx context.Context, dir string, settings map[string]any, env []string) (*editor, error) {
	e := &editor{dir: dir}
	data := filepath.Join(dir, "data")
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	for _, place := range []string{"User", "Machine"} {
		if err := os.MkdirAll(filepath.Join(data, place), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(data, place, "settings.json"), text, 0o600); err != nil {
			return nil, err
		}
	}
	e.env = append([]string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, env...)
	program := []string{newNode(), cached(codeServerInstall, "node_modules", "code-server", "out", "node", "entry.js"),
		"--user-data-dir", data, "--extensions-dir", filepath.Join(dir, "extensions")}
	for _, extension := range []string{"perigee.vsix", "standin.vsix"} {
		install := exec.CommandContext(ctx, program[0], append(program[1:], "--install-extension", cached(codeServerInstall, extension))...)
		install.Env = e.env
		if said, err := install.CombinedOutput(); err != nil || !strings.Contains(string(said), "successfully installed") {
			return nil, fmt.Errorf("code-server --install-extension: %w: %s", err, lastBytes(string(said), 1000))
		}
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e.address = fmt.Sprintf("http://127.0.0.1:%d", port)
	if e.log, err = os.Create(filepath.Join(dir, "code-server.log")); err != nil {
		return nil, err
	}
	server := exec.CommandContext(ctx, program[0], append(program[1:], "--auth", "none", "--bind-addr", strings.TrimPrefix(e.address, "http://"),
		"--disable-telemetry", "--disable-update-check", "--disable-workspace-trust")...)
	server.Env, server.Stdout, server.Stderr = e.env, e.log, e.log
	server.WaitDelay = 5 * time.Second
	endGroup := ownGroup(server)
	if err := server.Start(); err != nil {
		return nil, err
	}
	e.end = func() {
		endGroup()
		_ = server.Wait() // killed
	}
	if err := e.startBrowser(ctx); err != nil {
		e.close()
		return nil, err
	}
	return e, e.answering(ctx)
}

// answering waits until code-server does.
func (e *editor) answering(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.address+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("code-server does not answer: %w", err)
		}
	}
}

func (e *editor) startBrowser(ctx context.Context) error {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return err
	}
	script, err := filepath.Abs(filepath.Join("e2e", "clients", "vscode.mjs"))
	if err != nil {
		return err
	}
	e.browser = exec.CommandContext(ctx, newNode(), script)
	e.browser.Env = append(e.env, "CHROMIUM="+chromium, "FAILURE="+screenshot("failure.png"),
		"PLAYWRIGHT="+cached(codeServerInstall, "node_modules", "playwright-core", "index.mjs"))
	e.browser.Stderr = e.log
	if e.stdin, err = e.browser.StdinPipe(); err != nil {
		return err
	}
	stdout, err := e.browser.StdoutPipe()
	if err != nil {
		return err
	}
	e.answers = bufio.NewReader(stdout)
	return e.browser.Start()
}

// do has the browser run a command.
func (e *editor) do(command, window string, options map[string]any) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	message := map[string]any{"command": command, "window": window}
	for name, value := range options {
		message[name] = value
	}
	line, err := json.Marshal(message)
	if err != nil {
		return "", err
	}
	if _, err := e.stdin.Write(append(line, '\n')); err != nil {
		return "", fmt.Errorf("the browser ended: %w", err)
	}
	said, err := e.answers.ReadBytes('\n')
	if err != nil {
		return "", fmt.Errorf("the browser ended: %w", err)
	}
	var answer struct{ Result, Error string }
	if err := json.Unmarshal(said, &answer); err != nil {
		return "", err
	}
	if answer.Error != "" {
		return "", fmt.Errorf("browser, %s in window %s: %s", command, window, answer.Error)
	}
	return answer.Result, nil
}

func (e *editor) close() {
	if e.browser != nil && e.stdin != nil {
		e.stdin.Close()
		_ = e.browser.Wait() // it has said what it had to say
	}
	if e.end != nil {
		e.end()
	}
	e.log.Close()
}

// logged is what the extension has written to its log, in all windows.
func (e *editor) logged() string {
	files, _ := filepath.Glob(filepath.Join(e.dir, "data", "logs", "*", "*", "perigee.perigee", "*.log")) // the pattern is valid
	var all bytes.Buffer
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			all.Write(text)
		}
	}
	return all.String()
}

// screenshot is where a picture is left for people.
func screenshot(name string) string {
	return cached("screenshots", name)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
