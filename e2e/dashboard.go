package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// What happens on the dashboard in Chromium, by the names that stand in the report.
const (
	pagesShown    = "every page, light and dark"
	pagesPhone    = "every page on a phone"
	pagesLive     = "a live call"
	pagesAccount  = "an account is disabled and enabled"
	pagesKeyboard = "keyboard only"
	pagesTicket   = "a link works once"
)

const browserInstall = "browser"

// installBrowser gets Debian's chromium and the library that drives it.
func installBrowser(ctx context.Context) (fresh bool, err error) {
	if _, err := exec.LookPath("chromium"); err != nil {
		if err := installDebian(ctx, "chromium"); err != nil {
			return false, err
		}
	}
	return installPackages(ctx, browserInstall)
}

func dashboards() []client {
	return []client{{
		name: "dashboard", version: "playwright-core " + pinnedPackage(browserInstall, "playwright-core"), install: browserInstall, together: true,
		scenarios: []string{pagesShown, pagesPhone, pagesLive, pagesAccount, pagesKeyboard, pagesTicket},
		run: func(ctx context.Context, s *stage, c client, r *report) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			left := slices.Clone(c.scenarios)
			err := browseDashboard(ctx, s, c.scenarios, func(scenario string, failure error) {
				r.add(c, scenario, failure)
				left = slices.DeleteFunc(left, func(other string) bool { return other == scenario })
			})
			for _, scenario := range left {
				r.add(c, scenario, errors.Join(errors.New("the browser has not come to it"), err))
			}
		},
	}}
}

// browseDashboard starts a daemon with two accounts and has a browser use its dashboard. It tells
// the outcome of each scenario that was run.
func browseDashboard(ctx context.Context, s *stage, scenarios []string, tell func(scenario string, failure error)) error {
	const name = "dashboard"
	config, accounts := filepath.Join(s.dir, name+".yaml"), filepath.Join(s.dir, name+"-accounts.json")
	text := fmt.Sprintf("upstreams:\n  - {name: studio, kind: gemini, url: %[1]q, keys: [any]}\n"+
		"  - name: gravity\n    kind: antigravity\n    accept_terms_risk: true\n    endpoints: [%[1]q]\n"+
		"    oauth: {token_url: \"%[1]s/token\", userinfo_url: \"%[1]s/oauth2/v2/userinfo\", client_id: e2e, client_secret: e2e-secret}\n", s.provider.target)
	const signIns = `[{"email":"ada@example.com","refresh_token":"sim-refresh-ada"},{"email":"bob@example.com","refresh_token":"sim-refresh-bob"}]`
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o600), os.WriteFile(accounts, []byte(signIns), 0o600),
		os.MkdirAll(cached("screenshots"), 0o700), os.MkdirAll(filepath.Join(s.dir, name), 0o700)); err != nil {
		return err
	}
	imported := exec.CommandContext(ctx, s.binary, "account", "import", accounts, "--upstream", "gravity", "--config", config)
	imported.Env = s.env(name)
	if said, err := imported.CombinedOutput(); err != nil {
		return fmt.Errorf("perigee account import: %w: %s", err, firstLines(string(said), 5))
	}
	daemon, err := s.launch(ctx, name, s.binary, "serve", "--config", config, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer daemon.stop()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		return err
	}
	script := filepath.Join("e2e", "clients", "dashboard.mjs")
	browser := exec.CommandContext(ctx, "node", append([]string{script}, scenarios...)...)
	browser.Env = append(s.env(name), "CHROMIUM="+chromium, "ADDRESS="+daemon.address, "PERIGEE="+s.binary, "CONFIG="+config,
		"SCREENSHOTS="+cached("screenshots"), "PLAYWRIGHT="+cached(browserInstall, "node_modules", "playwright-core", "index.mjs"))
	stdout, err := browser.StdoutPipe()
	if err != nil {
		return err
	}
	browser.Stderr, browser.WaitDelay = daemon.log, 10*time.Second
	if err := browser.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var outcome struct{ Scenario, Error string }
		if err := json.Unmarshal(lines.Bytes(), &outcome); err != nil {
			continue // not an outcome
		}
		var failure error
		if outcome.Error != "" {
			failure = errors.New(outcome.Error)
		}
		tell(outcome.Scenario, failure)
	}
	if err := browser.Wait(); err != nil {
		return fmt.Errorf("the browser ended: %w: %s", err, lastBytes(daemon.said(), 1000))
	}
	return nil
}
