// Package daemon puts the parts of perigee together and runs them. Commands start it; nothing
// imports it but commands and tests.
//
// This room alone builds upstreams, and imports every room that serves. Begin with Start in
// daemon.go, which has the list of services; service.go documents their life cycle, reload.go
// applies a changed file, offline.go is the same without a daemon. Transcripts of all dialects are
// in testdata.
//
//	accounttests  tests of a whole daemon: accounts and their pools
//	gateway       the upstreams of a configuration and the way to them, which a reload replaces
//	limittests    tests of a whole daemon: limits of keys and connections
//	prooftests    tests of a whole daemon: captured, random, large and cut conversations
//	reloadtests   tests of a whole daemon: changes of the configuration file
//	remote        finds, asks and stops the running daemon, for commands
package daemon
