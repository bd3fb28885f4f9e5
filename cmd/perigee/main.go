// Command perigee is the gateway and its command line.
//
// There is one file per command: flags, output, exit code. The packages below internal do the work.
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/cli/completioncmd"
	"perigee/internal/cli/connectcmd"
	"perigee/internal/cli/tracecmd"
	"perigee/internal/lib/terminal"
)

// version is set by the release build. Other builds report the version that Go recorded.
var version = ""

//go:embed help/*.txt
var helpTexts embed.FS

var program = cli.Program{
	Commands: []cli.Command{
		{Name: "serve", Summary: "run the gateway in the foreground", Run: serve},
		{Name: "stop", Summary: "stop the running daemon after its open calls", Run: stopCommand},
		{Name: "health", Summary: "report whether the running daemon can answer calls", JSON: true, Run: healthCommand},
		{Name: "service", Summary: "run the gateway as a service of your account or the system", JSON: true, Run: service,
			Subcommands: []string{"install", "status", "remove"}},
		{Name: "upgrade", Summary: "compare this program with an index of releases", JSON: true, NoConfig: true, Run: upgrade},
		{Name: "run", Summary: "start a coding agent that uses perigee", Run: connectcmd.Run},
		{Name: "connect", Summary: "write the settings of a coding agent or editor, or undo that", JSON: true, Run: connectcmd.Connect},
		{Name: "login", Summary: "sign in with your own Google account", Run: login},
		{Name: "account", Summary: "show and manage accounts", JSON: true, Run: account,
			Subcommands: []string{"list", "import", "export", "enable", "disable", "remove", "use", "explain"}},
		{Name: "models", Summary: "list models", JSON: true, Run: models},
		{Name: "explain", Summary: "show which upstream would answer, and why", JSON: true, Run: explain},
		{Name: "quota", Summary: "show remaining quota", JSON: true, Run: quotaCommand},
		{Name: "usage", Summary: "show token usage and list prices", JSON: true, Run: usageCommand},
		{Name: "trace", Summary: "list, show, follow and replay calls", JSON: true, Run: tracecmd.Run, Subcommands: tracecmd.Subcommands},
		{Name: "audit", Summary: "list administrative actions", JSON: true, Run: auditLog},
		{Name: "store", Summary: "show what is stored, compact the database", JSON: true, Run: store, Subcommands: []string{"compact"}},
		{Name: "langserver", Summary: "inspect and run a language server", JSON: true, Run: langserverCommand,
			Subcommands: []string{"probe", "run", "status"}},
		{Name: "mcp", Summary: "serve MCP on stdin and stdout, for the client that starts it", Run: mcpCommand},
		{Name: "mitm", Summary: "show what other programs send, with an intercepting proxy", JSON: true, Run: mitmCommand},
		{Name: "ca", Summary: "show, install and remove the CA for interception", JSON: true, Run: caCommand,
			Subcommands: []string{"show", "install", "remove"}},
		{Name: "redirect", Summary: "redirect the connections of a system user to perigee", JSON: true, NoConfig: true, Run: redirectCommand,
			Subcommands: []string{"install", "status", "remove"}},
		{Name: "bridge", Summary: "list the editor windows with perigee's extension", JSON: true, NoConfig: true, Run: bridgeCommand,
			Subcommands: []string{"list"}},
		{Name: "doctor", Summary: "find problems, and the commands that fix them", JSON: true, Run: doctorCommand},
		{Name: "dashboard", Summary: "open the dashboard of the running daemon", Run: dashboardCommand},
		{Name: "simulate", Summary: "run the simulator alone, to test other programs", NoConfig: true, Run: simulate},
		{Name: "config", Summary: "create, check or show the configuration", JSON: true, Run: configure,
			Subcommands: []string{"show", "check", "schema", "init", "import"}},
		{Name: "completion", Summary: "print a completion script for a shell", NoConfig: true, Run: completioncmd.Run,
			Subcommands: completioncmd.Subcommands},
		{Name: "version", Summary: "print the version", NoConfig: true, Run: printVersion},
	},
	Help: helpTexts, Version: programVersion(), Files: manFiles, Exits: exitTable,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	env := &cli.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	code := supervised(ctx, env, func(ctx context.Context, env *cli.Env) int { return run(ctx, env, os.Args[1:]) })
	stop()
	os.Exit(code)
}

func run(ctx context.Context, env *cli.Env, args []string) (code int) {
	err := program.Run(ctx, env, args)
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[*command.ExitStatus](err); ok {
		return status.Code
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		env.Remark("%s", terminal.Printable(line)) // it may quote a provider
	}
	return exitCode(err)
}

func printVersion(_ context.Context, env *cli.Env, args []string) error {
	if _, err := env.Parse(args, 0); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "perigee %s %s %s/%s\n", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}
