package daemon

import (
	"context"
	"fmt"

	"perigee/internal/config"
	"perigee/internal/headless"
)

// CanReplace returns why a daemon with a configuration could not start in place of the running one, as far as that can be seen before
// the running one is stopped: another program has the address of the intercepting proxy. It changes nothing. The address for clients is
// not checked here. Without a daemon that answers there is no error.
func CanReplace(ctx context.Context, cfg *config.Config, simulate bool) error {
	status, err := Status(ctx, cfg)
	if err != nil || simulate {
		return ctx.Err()
	}
	for _, u := range cfg.Upstreams {
		if u.Kind != config.KindLangserver || u.Attach {
			continue
		}
		if err := headless.CheckInterception(ctx, cfg.Interception, u.Intercept, status.Holds); err != nil {
			return fmt.Errorf("upstream %s: %w", u.Name, err)
		}
	}
	return nil
}
