// Package cli is the frame of perigee's command line: a table of commands with their help, flags,
// messages, prompts and listings. It does not know the commands.
//
// A command of a few lines is a file in cmd/perigee; larger ones are packages here. Only
// cmd/perigee imports this room. Begin with the table of commands in cmd/perigee/main.go.
//
//	command        what commands share: configuration, the running daemon, the store, listings
//	completioncmd  perigee completion
//	connectcmd     perigee connect and perigee run
//	doctor         perigee doctor and its checks
//	importcmd      perigee config import
//	mcpcmd         perigee mcp
//	tracecmd       perigee trace
//	trustinstall   perigee ca: what is changed in trust stores, and what was
package cli
