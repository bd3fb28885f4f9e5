package tracecmd

import (
	"context"
	"path/filepath"

	"perigee"
	"perigee/internal/cli"
	"perigee/internal/cli/command"
	"perigee/internal/lib/redact"
	"perigee/internal/lib/terminal"
	"perigee/internal/observe/trace"
	"perigee/internal/observe/trace/replay"
	"perigee/internal/observe/trace/story"
	"perigee/internal/store/config"
)

// tracesDir returns where the trace directories are.
func tracesDir(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "traces") }

// printCall prints a call: from its trace directory if that exists, and otherwise from the
// database.
func printCall(ctx context.Context, env *cli.Env, cfg *config.Config, t *perigee.Trace) error {
	directory, err := replay.Open(ctx, trace.In(tracesDir(cfg)), &t.TraceRow)
	if err != nil {
		directory = nil
		if perigee.AsError(err).Class != perigee.ClassNotFound {
			env.Remark("%v", err)
		}
	}
	if env.JSON {
		return cli.WriteJSON(env, detailed(t, directory))
	}
	s := story.Story{Call: *t, Trace: directory, Redact: redact.New(cfg.Secrets()...).Text, Hint: env.Hint, Width: env.Width(),
		Palette: terminal.PaletteOf(env.Stdout), Zone: command.Zone()}
	return s.Write(env.Stdout)
}

// A details is a call as JSON, with where its files are.
type details struct {
	perigee.Trace
	Directory string   `json:"directory"` // empty if there is none
	Files     []string `json:"files"`
}

func detailed(t *perigee.Trace, directory *trace.Trace) details {
	d := details{Trace: *t, Files: []string{}}
	if directory != nil {
		d.Directory, d.Files, d.Bodies = directory.Dir, directory.Files(), directory.Meta.Bodies
	}
	return d
}
