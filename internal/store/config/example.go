package config

import (
	_ "embed"
	"strings"
)

// The example file. Two lines with exampleMark enclose the example of an upstream of kind gemini.
//
//go:embed example.yaml
var example string

const exampleMark = "# ---\n"

// Example returns a configuration file that explains every key. It sets the address to listen on
// and, if there is an API key in the environment, an upstream; all other settings are commented out
// with # and no space behind it.
func Example(src Sources) []byte {
	parts := strings.Split(example, exampleMark)
	if variable := newLoader(src).src.keyVariable(); variable != "" {
		parts[1] = "upstreams:\n  - name: " + environmentUpstream + "\n    kind: " + KindGemini + "\n    keys: [env:" + variable + "]\n"
	}
	return []byte(strings.Join(parts, ""))
}
