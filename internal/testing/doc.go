// Package testing is the room of what only tests, bench and e2e use. No product package imports it.
// Begin with perigeetest/transcript.go and daemontest.
//
//	adapttest           adapts prompts, for tests of dialects
//	bridgetest          a window of an editor, for tests
//	conformance         runs the Connect conformance suite with connectframe and without
//	daemontest          a whole daemon in the test's process or in its own, providers and clients for it
//	h2spec              runs h2spec against the interception proxy
//	mitmfront           the interception proxy before a server, for suites that run from outside
//	perigeetest         fixed clock and IDs, pipes, the scripted provider, the transcript runner
//	perigeetest/await   waits of tests, each with a limit and a name for what did not come
//	perigeetest/dbtest  databases for tests: schemas on PostgreSQL, the state of an editor
//	terminaltest        terminals for tests
//	testenv             a PostgreSQL server and certificates, also for bench and e2e
package testing
