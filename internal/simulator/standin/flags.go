package standin

import (
	"errors"
	"flag"
	"io"
	"slices"
)

// options are the flags that have an effect. All generations have more, which are accepted and
// ignored.
type options struct {
	csrf            string
	extensionPort   int
	extensionCSRF   string
	randomPort      bool
	serverPort      int
	httpsPort       int
	httpPort        int
	lspPort         int
	enableLSP       bool
	workspaceID     string
	cloudEndpoint   string
	appDataDir      string
	geminiDir       string
	persistent      bool
	parentPipe      string
	exitOnStdin     bool
	overrideVersion string
	subclient       string
	stamp           bool
}

// ignored are the flags of each generation without an effect here, and whether they are booleans.
var ignored = []struct {
	name        string
	boolean     bool
	generations []string
	help        string
}{
	{"standalone", true, []string{classic, hub}, "run without an IDE"},
	{"dev_mode", true, []string{classic, classic2}, "use development settings"},
	{"is_google3_workspace", true, []string{classic, classic2}, "the workspace is a google3 workspace"},
	{"is_google_internal", true, []string{classic, classic2}, "the user is internal"},
	{"use_dev_unleash", true, []string{classic, classic2}, "use the development instance of the experiment service"},
	{"disable_telemetry", true, []string{classic, classic2, hub}, "record no telemetry"},
	{"headless", true, []string{classic2, hub}, "run without a user interface"},
	{"enable_sidecars", true, []string{hub}, "run sidecars"},
	{"use_local_chrome", true, []string{classic, classic2}, "use the browser of this machine"},
	{"local_chrome_headless", true, []string{classic, classic2, hub}, "run the browser without a window"},
	{"use_ls_chrome_devtools_mcp", true, []string{classic2, hub}, "serve the browser's developer tools"},
	{"limit_go_max_procs", false, []string{classic, classic2, hub}, "limit GOMAXPROCS"},
	{"api_server_url", false, []string{classic, classic2, hub}, "address of the API server"},
	{"inference_api_server_url", false, []string{classic, classic2, hub}, "address of the inference server"},
	{"proxy_server_url", false, []string{classic2, hub}, "address of a proxy"},
	{"model_api_client_type", false, []string{classic2, hub}, "client of the model API"},
	{"config_dir", false, []string{classic2, hub}, "directory of the configuration"},
	{"host_bridge_url", false, []string{hub}, "address of the host bridge"},
	{"host_bridge_token", false, []string{hub}, "token of the host bridge"},
	{"override_ide_name", false, []string{classic2, hub}, "name of the IDE"},
	{"override_user_agent_name", false, []string{classic2, hub}, "name in User-Agent"},
	{"v", false, []string{classic, classic2, hub}, "log level for V logs"},
	{"logtostderr", true, []string{classic, classic2, hub}, "log to standard error instead of files"},
}

// newFlags declares the flags of a generation. Errors and the list of flags go to out, as the flag
// package writes them.
func newFlags(generation string, out io.Writer) (*flag.FlagSet, *options) {
	f, o := flag.NewFlagSet("language_server", flag.ContinueOnError), &options{}
	f.SetOutput(out)
	ide := generation != hub
	desktop := generation == hub || generation == hub2
	f.StringVar(&o.csrf, "csrf_token", "", "token that callers have to send")
	f.StringVar(&o.cloudEndpoint, "cloud_code_endpoint", "", "address of the cloud")
	f.StringVar(&o.appDataDir, "app_data_dir", "antigravity", "name of the data directory below .gemini")
	f.BoolVar(&o.persistent, "persistent_mode", false, "outlive the IDE and announce the ports in a file")
	f.BoolVar(&o.stamp, "stamp", false, "print the build stamp and exit")
	if ide {
		f.BoolVar(&o.enableLSP, "enable_lsp", false, "serve the language server protocol")
		f.IntVar(&o.extensionPort, "extension_server_port", 0, "port of the extension server")
		f.StringVar(&o.extensionCSRF, "extension_server_csrf_token", "", "token of the extension server")
		f.StringVar(&o.workspaceID, "workspace_id", "", "name of the workspace")
		f.StringVar(&o.parentPipe, "parent_pipe_path", "", "socket of the parent; the server exits when it closes")
		f.IntVar(&o.lspPort, "lsp_port", map[string]int{classic: 42101}[generation], "port of the language server protocol")
	}
	if generation == classic {
		f.BoolVar(&o.randomPort, "random_port", false, "use random ports")
		f.IntVar(&o.serverPort, "server_port", 42100, "port of the server")
	} else {
		f.IntVar(&o.httpsPort, "https_server_port", 0, "port for HTTPS; 0 is a random one")
		f.IntVar(&o.httpPort, "http_server_port", 0, "port for HTTP; 0 is a random one")
		f.StringVar(&o.subclient, "subclient_type", "", "ide or hub")
		f.StringVar(&o.geminiDir, "gemini_dir", "", "directory that replaces .gemini")
	}
	if desktop {
		f.BoolVar(&o.exitOnStdin, "exit_on_stdin_close", false, "exit at the end of standard input")
		f.StringVar(&o.overrideVersion, "override_ide_version", "", "version of the IDE")
	}
	for _, other := range ignored {
		switch {
		case !slices.Contains(other.generations, generation) && (generation != hub2 || !slices.ContainsFunc(other.generations, func(g string) bool { return g != classic })):
		case other.boolean:
			f.Bool(other.name, false, other.help)
		default:
			f.String(other.name, "", other.help)
		}
	}
	return f, o
}

// parseFlags returns an exit code if the process is not to run. The flag package has written the
// reason.
func parseFlags(generation string, args []string, out io.Writer) (o *options, code int, run bool) {
	f, o := newFlags(generation, out)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil, 0, false
	case err != nil:
		return nil, 2, false
	}
	return o, 0, true
}
