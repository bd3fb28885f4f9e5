// Package observe is the room of the observers of calls. They follow calls and never delay or
// change them. Only daemon, cli and cmd/perigee import it. Begin with trace.Store, which writes a
// directory for each call, and dashboard/dashboard.go.
//
//	dashboard        the pages at / and /dashboard/: sign-in, gathering, live updates
//	dashboard/html   markup from constants and values, each escaped for its place
//	dashboard/pages  for each page a struct with its content, and its markup
//	live             the open calls with the ends of their answers so far; GET /v1/live
//	metrics          counts calls and shows the state of the daemon at GET /metrics
//	secrets          collects the secrets that perigee knows, for a redactor
//	telemetry        sends a span for each call and attempt to an OpenTelemetry collector
//	trace            writes and reads files for each call, in a ring of limited size
//	trace/bundle     packs a trace without secrets and addresses of accounts
//	trace/replay     sends the request of a trace again, or smaller versions of one that fails
//	trace/story      the text of perigee trace show and of trace replay --diff
package observe
