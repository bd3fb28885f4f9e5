package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// A peer is another gateway in Go that translates for the same provider. It is built from its
// module at one version, so that the same comparison can be made again, and runs with the settings
// that cost it least.
type peer struct {
	name, module, version string
	command               string // the package of its program, below the module
	cgo                   bool

	// calls are the dialects it serves: at which path, and what it calls quickModel there.
	calls map[*dialect]peerCall

	// configure writes what the peer needs into a directory of its own and returns the arguments to
	// start it with.
	configure func(dir, port, provider string) ([]string, error)
}

type peerCall struct{ path, model string }

// peerKey is what clients show to gateways, and gateways to the provider. Only some gateways check
// it.
const peerKey = "bench-key-1234"

// The versions are fixed by hand. CLIProxyAPI has a v7 since, under another module path, which
// could not be downloaded where this was written; v6.10.0 could, and its checksum be verified.
var peers = []*peer{
	{
		name: "CLIProxyAPI", module: "github.com/router-for-me/CLIProxyAPI/v6", version: "v6.10.0", command: "/cmd/server",
		calls: map[*dialect]peerCall{
			chat: {chat.path, quickModel}, responses: {responses.path, quickModel},
			messages: {messages.path, quickModel}, gemini: {gemini.path, quickModel},
		},
		configure: configureCLIProxyAPI,
	},
	{
		// Its module could not be downloaded where this was written, so paths and settings follow
		// its documentation and are untried at this version. Where they are wrong, its answers are,
		// and it is left out instead of measured.
		name: "bifrost", module: "github.com/maximhq/bifrost/transports", version: "v1.6.8", command: "/bifrost-http", cgo: true,
		calls: map[*dialect]peerCall{
			chat: {chat.path, "gemini/" + quickModel}, responses: {responses.path, "gemini/" + quickModel},
			messages: {"/anthropic" + messages.path, "gemini/" + quickModel}, gemini: {"/genai" + gemini.path, quickModel},
		},
		configure: configureBifrost,
	},
}

func configureCLIProxyAPI(dir, port, provider string) ([]string, error) {
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf(`host: 127.0.0.1
port: %s
auth-dir: %q
api-keys: [%s]
remote-management: {secret-key: "", disable-control-panel: true}
request-retry: 0
usage-statistics-enabled: false
commercial-mode: true
gemini-api-key:
  - {api-key: %[3]s, base-url: %q, models: [{name: %s, alias: %[5]s}]}
`, port, filepath.Join(dir, "auths"), peerKey, provider, quickModel)
	return []string{"-config", config, "-local-model"}, os.WriteFile(config, []byte(text), 0o600)
}

func configureBifrost(dir, port, provider string) ([]string, error) {
	// It does not start without a list of prices, which it would fetch from its makers.
	prices, parameters := filepath.Join(dir, "prices.json"), filepath.Join(dir, "parameters.json")
	files := map[string]string{
		prices: `{"` + quickModel + `":{"provider":"gemini","mode":"chat","input_cost_per_token":1e-7,"output_cost_per_token":1e-7}}`,

		parameters: `{}`,

		filepath.Join(dir, "config.json"): fmt.Sprintf(`{
"client": {"enable_logging": false, "drop_excess_requests": false, "initial_pool_size": 500},
"providers": {"gemini": {
  "keys": [{"name": "bench", "value": %q, "models": ["*"], "weight": 1}],
  "network_config": {"base_url": "%s/v1beta", "max_retries": 0},
  "concurrency_and_buffer_size": {"concurrency": 1000, "buffer_size": 5000}}},
"config_store": {"enabled": false}, "logs_store": {"enabled": false},
"framework": {"pricing": {"pricing_url": "file://%s", "model_parameters_url": "file://%s", "mcp_library_sync_interval": 0}}
}`, peerKey, provider, prices, parameters),
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return []string{"-app-dir", dir, "-host", "127.0.0.1", "-port", port, "-log-level", "error"}, nil
}
