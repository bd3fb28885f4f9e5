package daemon_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"perigee/internal/daemon"
	"perigee/internal/testing/daemontest"
	"perigee/internal/testing/perigeetest"
)

// counting is randomness that is none: the last byte of each reading is one more than that of the
// one before.
type counting struct{ n atomic.Uint32 }

func (c *counting) Read(p []byte) (int, error) {
	clear(p)
	p[len(p)-1] = byte(c.n.Add(1))
	return len(p), nil
}

func TestTranscripts(t *testing.T) {
	runner := perigeetest.Runner{
		Update: *update,
		Start: func(ctx context.Context, setup perigeetest.Setup) (perigeetest.Gateway, error) {
			daemontest.PutDatabase(t, setup.Dir)
			if strings.Contains(setup.Config, "{{sign-in}}") {
				daemontest.SignIn(t, setup.Dir, daemontest.SignedIn("ada@example.com", "ada-project", "refresh-of-ada"))
				setup.Config = strings.ReplaceAll(setup.Config, "{{sign-in}}", daemontest.SignInServer(t))
			}
			if strings.Contains(setup.Config, "{{google}}") {
				setup.Config = strings.ReplaceAll(setup.Config, "{{google}}", daemontest.GoogleCredentials(t))
			}
			return daemontest.Launch(ctx, daemontest.Sources(setup.Config, setup.Dir), func(o *daemon.Options) {
				o.Now, o.NewID = setup.Clock.Now, setup.IDs.New
				o.Logger = slog.New(slog.DiscardHandler)
				o.Random = &counting{}
			})
		},
	}
	runner.Run(t, "testdata/*/*.txtar")
}
