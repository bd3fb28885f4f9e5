package simulator

import (
	"fmt"
	"strings"

	"perigee/internal/simulator/openai"
	"perigee/internal/simulator/rules"
)

// Hint is Usage in three lines, for a terminal.
const Hint = `answers follow directives in the last user text, such as [[text: hello]], [[think: plan]] or [[call: read_file {"path":"a"}]]
without directives: "use NAME" calls a declared function, other text is repeated
all directives, routes and faults: GET /
`

// Usage explains in plain text how to drive the simulator. It is served at GET /.
func Usage() string {
	var b strings.Builder
	b.WriteString("This is the perigee simulator: a strict replacement for the providers. No model is involved.\n\n" +
		"Directives in the last user text determine the answer:\n")
	for _, d := range directiveHelp {
		fmt.Fprintf(&b, "  %-34s %s\n", d.form, d.about)
	}
	b.WriteString("Without directives it calls a declared function that the text tells it to (\"use NAME\", \"call NAME {json}\"),\n" +
		"reports the result of a tool, fills in a JSON schema, or repeats the beginning of the text.\n\n" +
		"Routes: POST /token, GET /o/oauth2/v2/auth, GET /oauth2/v2/userinfo, POST /v1internal:METHOD,\n" +
		"GET /v1beta/models, POST /v1beta/models/MODEL:METHOD (any API key unless keys are configured).\n" +
		"With such a key as a bearer token: GET /v1/models, POST /v1/chat/completions, POST /v1/responses,\n" +
		"GET and DELETE /v1/responses/ID, POST /v1/responses/input_tokens, /v1/embeddings, /v1/images/generations.\n" +
		"With such a key in x-api-key, and anthropic-version: POST /v1/messages, POST /v1/messages/count_tokens,\n" +
		"GET /v1/models, GET /v1/models/ID. There, [[think: redacted]] hides a thought, and [[finish: REASON]] takes a stop reason.\n" +
		"With an access token of Google Cloud: GET /v1beta1/publishers/google/models,\n" +
		"POST /v1/projects/sim-vertex/locations/global/publishers/google/models/MODEL:METHOD (Vertex AI),\n" +
		"and the same with publishers/anthropic: rawPredict, streamRawPredict and count-tokens:rawPredict (Claude).\n" +
		"Credentials of Google Cloud: POST /token (jwt-bearer), POST /v1/token, GET /computeMetadata/v1/PATH,\n" +
		"POST /v1/projects/-/serviceAccounts/EMAIL:generateAccessToken.\n" +
		"Without a key: GET /api/version, /api/tags and /api/ps, POST /api/show, /api/chat, /api/generate and /api/embed (Ollama).\n" +
		"Sign-in without a browser: POST /token with grant_type=refresh_token and one of these refresh tokens:\n")
	for _, a := range DefaultAccounts() {
		fmt.Fprintf(&b, "  %s (%s)\n", a.RefreshToken, a.Email)
	}
	b.WriteString("\nProfiles (--profile), the servers that the paths below /v1 answer and refuse like:\n")
	for _, name := range Profiles() {
		fmt.Fprintf(&b, "  %-34s %s\n", name, openai.About(name))
	}
	b.WriteString("\nFaults, for a script (--script) or POST /simulator/faults, for example\n" +
		"  {\"when\": {\"method\": \"streamGenerateContent\", \"call\": \"2-3\"}, \"times\": 1, \"do\": \"rate_limit\", \"delay\": \"2s\"}\n")
	list(&b, faultKeys)
	b.WriteString("Values of do:\n")
	for _, name := range FaultNames() {
		fmt.Fprintf(&b, "  %-34s %s\n", name, faultKinds[name].about)
	}
	b.WriteString("\nKeys of a script (--script), which is YAML:\n")
	list(&b, scriptKeys)
	b.WriteString("\nSwitches, under switches in a script:\n")
	for _, s := range rules.SwitchList() {
		fmt.Fprintf(&b, "  %-34s %s (%s; default %s)\n", s.Name, s.About, strings.Join(s.Values, "|"), s.Default)
	}
	b.WriteString("\nLimits that cannot be changed:\n")
	list(&b, fixedLimits)
	b.WriteString("\nControl at run time, with perigee simulate only:\n")
	for _, route := range adminRoutes() {
		fmt.Fprintf(&b, "  %-34s %s\n", route.method+" "+route.path, route.about)
	}
	return b.String()
}

func list(b *strings.Builder, entries []entry) {
	for _, e := range entries {
		fmt.Fprintf(b, "  %-34s %s\n", e.name, e.about)
	}
}
