package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// root answers GET /: how to point clients here, and which paths there are. Browsers get HTML, everything else plain text. The
// page holds nothing that is not public: addresses are those of the request, and there is a placeholder for the key.
func (c *call) root() error {
	page := c.clientHelp()
	h := c.w.Header()
	h.Set("Vary", "Accept")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", rootPolicy)
	text, kind := page.text(), "text/plain"
	if strings.Contains(c.r.Header.Get("Accept"), "text/html") {
		text, kind = page.html(), "text/html"
	}
	h.Set("Content-Type", kind+"; charset=utf-8")
	c.writeHead(http.StatusOK)
	_, _ = c.w.Write([]byte(text)) // a client that is gone cannot be told
	return nil
}

// A helpPage is what GET / says.
type helpPage struct {
	intro    string
	sections []helpSection
}

type helpSection struct {
	title string
	rows  [][2]string // what, and what to type
}

// exampleModel is the model in the examples where no default is configured.
const exampleModel = "gemini-3-flash"

// geminiCLIModel is a name that Gemini CLI sends as it is: it replaces those of other generations with names of its own.
const geminiCLIModel = "gemini-2.5-pro"

// clientHelp is the page for the address and the settings of this request.
func (c *call) clientHelp() helpPage {
	base := "http://" + c.r.Host
	if c.r.TLS != nil {
		base = "https://" + c.r.Host
	}
	key, model, codexKey := "any", c.opts.Model(""), ""
	if len(c.state.keys) > 0 { // what is configured is for those who have one
		key, model, codexKey = "YOUR_KEY", "", "\nenv_key = \"PERIGEE_KEY\""
	}
	if model == "" {
		model = exampleModel
	}
	return helpPage{
		intro: "This is perigee, a gateway for programs that use the OpenAI, Anthropic or Gemini API.",
		sections: []helpSection{
			{"Clients", [][2]string{
				{"Claude Code", fmt.Sprintf("export ANTHROPIC_BASE_URL=%s ANTHROPIC_AUTH_TOKEN=%s\nexport ANTHROPIC_MODEL=%[3]s ANTHROPIC_DEFAULT_OPUS_MODEL=%[3]s\nexport ANTHROPIC_DEFAULT_SONNET_MODEL=%[3]s ANTHROPIC_DEFAULT_HAIKU_MODEL=%[3]s\nclaude", base, key, model)},
				{"Codex (~/.codex/config.toml)", fmt.Sprintf("model = %q\nmodel_provider = \"perigee\"\n[model_providers.perigee]\nname = \"perigee\"\nbase_url = \"%s/v1\"\nwire_api = \"responses\"%s", model, base, codexKey)},
				{"Gemini CLI (~/.gemini/settings.json)", `{"security": {"auth": {"selectedType": "gemini-api-key"}}}`},
				{"Gemini CLI", fmt.Sprintf("GOOGLE_GEMINI_BASE_URL=%s GEMINI_API_KEY=%s gemini -m %s", base, key, geminiCLIModel)},
				{"OpenAI SDKs, OpenCode", "base URL " + base + "/v1"},
				{"Anthropic SDKs", "base URL " + base},
				{"Google GenAI SDKs", "base URL " + base},
				{"curl", fmt.Sprintf("curl %s/v1/chat/completions -H 'Content-Type: application/json' -H 'Authorization: Bearer %s' -d '{\"model\": %q, \"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}'", base, key, model)},
			}},
			{"Paths", [][2]string{
				{"OpenAI", "POST /v1/chat/completions, /v1/responses, /v1/embeddings, /v1/images/generations"},
				{"Anthropic", "POST /v1/messages, /v1/messages/count_tokens"},
				{"Gemini", "POST /v1beta/models/{model}:generateContent, :streamGenerateContent, :countTokens, :embedContent, :batchEmbedContents"},
				{"Models", "GET /v1/models, /v1beta/models"},
				{"Stored responses and images", "GET /v1/responses/{id}, /v1/images/{id}"},
				{"Usage and quota", "GET /v1/usage, /v1/quota"},
				{"Administration (admin token)", "/v1/accounts, /v1/accounts/use, /v1/accounts/status, /v1/traces, /v1/traces/{id}, /v1/audit, /v1/status, /v1/store, /v1/store/compact"},
				{"Liveness and readiness", "GET /health, /ready"},
			}},
			{"Commands", [][2]string{
				{"perigee models", "the names that can be used as a model"},
				{"perigee trace list", "the last calls; perigee trace show last explains the newest"},
				{"perigee usage", "tokens by model, client, key or day"},
			}},
		},
	}
}

func (p helpPage) text() string {
	var b strings.Builder
	b.WriteString(p.intro + "\n")
	for _, s := range p.sections {
		b.WriteString("\n" + s.title + "\n")
		for _, row := range s.rows {
			fmt.Fprintf(&b, "  %s\n      %s\n", row[0], strings.ReplaceAll(row[1], "\n", "\n      "))
		}
	}
	return b.String()
}

func (p helpPage) html() string {
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n" +
		"<title>perigee</title>\n<style>" + rootStyle + "</style>\n<h1>perigee</h1>\n<p>" + html.EscapeString(p.intro) + "</p>\n")
	for _, s := range p.sections {
		b.WriteString("<h2>" + html.EscapeString(s.title) + "</h2>\n<dl>\n")
		for _, row := range s.rows {
			fmt.Fprintf(&b, "<dt>%s</dt><dd><pre>%s</pre></dd>\n", html.EscapeString(row[0]), html.EscapeString(row[1]))
		}
		b.WriteString("</dl>\n")
	}
	return b.String()
}

const rootStyle = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}" +
	"pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0 .8rem}dd{margin:0}"

// rootPolicy lets the page use its own style and nothing else.
var rootPolicy = func() string {
	sum := sha256.Sum256([]byte(rootStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()
