package main

import (
	"context"
	"slices"
)

// A client is a program, or one way to use a library, that speaks to perigee.
type client struct {
	name      string
	version   string
	install   string // the folder of the cache that it needs
	also      string // a second one; empty if there is none
	scenarios []string
	together  bool      // may run at the same time as further clients
	beside    bool      // runs at the same time as all clients that follow
	carried   bool      // its calls travel inside those of a language server
	simulator bool      // it speaks to the simulator, without perigee in between
	provider  *provider // answers; nil for the daemons of the stage
	older     string    // the commit of an older perigee that it needs, beside install

	// run tells the report the outcome of every scenario of c, even when the client itself cannot
	// run.
	run func(ctx context.Context, s *stage, c client, r *report)
}

// What is asked of every client, by the names that stand in the report.
const (
	question  = "question"
	toolLoop  = "tool loop"
	parallel  = "parallel tools"
	image     = "image"
	refusal   = "error"
	rateLimit = "rate limit"
	usedUp    = "used-up quota" // the library retries as it does by default, and the quota resets in an hour
	toolRun   = "tool runner"   // Anthropic's own loop, which speaks differently from one written by hand
	dialogue  = "dialogue"      // two loops, one after the other, in one conversation
)

func allClients() []client {
	return slices.Concat(published(), javascriptSDKs(), goSDKs(), simulatorSDKs(), editorWindows(), agents(), providerClients(), openCodePlugins(), carriedClients(), printed(), dashboards(),
		troubledStreams(), movedNetworks(), interceptions(), redirections(), observers(), headlessServers(), teams(), modelContext(), connections(), firstUseClients(), upgrades(), rollingUpgrades(), packages(), services(), images())
}

// choose keeps the clients and scenarios that are to run: those that the pattern finds in "client:
// scenario", all, or those that every change needs.
func (o options) choose(clients []client) []client {
	var chosen []client
	for _, c := range clients {
		c.scenarios = slices.DeleteFunc(slices.Clone(c.scenarios), func(scenario string) bool {
			switch {
			case o.only != nil:
				return !o.only.MatchString(c.name + ": " + scenario)
			case o.all:
				return false
			}
			return !slices.Contains(everyChange(c), scenario)
		})
		if len(c.scenarios) > 0 {
			chosen = append(chosen, c)
		}
	}
	return chosen
}
