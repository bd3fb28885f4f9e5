package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"perigee/internal/daemon/remote"
	"perigee/internal/store/config"
)

// A Readiness is the answer of a daemon to GET /ready.
type Readiness struct {
	Status  string   `json:"status"` // ready or unready
	Reasons []string `json:"reasons,omitempty"`
}

// readinessLimit is several times as long as a daemon takes to examine itself.
const readinessLimit = 10 * time.Second

// Ready asks the running daemon through its socket whether it can answer calls. It returns
// ErrNotRunning if there is none, and ErrNoAnswer if it does not answer.
func Ready(ctx context.Context, cfg *config.Config) (Readiness, error) {
	return readyWithin(ctx, cfg, readinessLimit)
}

func readyWithin(ctx context.Context, cfg *config.Config, limit time.Duration) (Readiness, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := askReadiness(limited, cfg)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w (no whole answer within %v)", ErrNoAnswer, limit)
	}
	return answer, err
}

func askReadiness(ctx context.Context, cfg *config.Config) (answer Readiness, err error) {
	client, err := Reach(ctx, cfg)
	if err != nil {
		return answer, err
	}
	resp, err := client.Open(ctx, http.MethodGet, "/ready")
	if err != nil {
		return answer, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return answer, remote.Refusal(resp)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil {
		return answer, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return answer, nil
}
