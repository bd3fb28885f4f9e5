package config

import (
	_ "embed"
	"fmt"
	"strings"
)

// The example file. The line exampleMark is where the upstreams of the environment are.
//
//go:embed example.yaml
var example string

const exampleMark = "# ---\n"

// Example returns a configuration file that explains every key. It sets the address to listen on
// and an upstream for each API key in the environment; all other settings are commented out with #
// and no space behind it.
func Example(src Sources) []byte {
	src = newLoader(src).src
	var found, others strings.Builder
	for _, u := range environmentUpstreams {
		if variable, _ := u.keyIn(src); variable != "" {
			found.WriteString(u.entry(variable))
		} else {
			others.WriteString("#" + u.entry(u.variables[0]))
		}
	}
	list := "upstreams:\n"
	if found.Len() == 0 {
		list = "#" + list
	}
	return []byte(strings.Replace(example, exampleMark, list+found.String()+others.String(), 1))
}

// entry returns the entry of an upstream under upstreams, with its key in a variable.
func (u environmentUpstream) entry(variable string) string {
	url := ""
	if u.url != "" {
		url = ", url: " + u.url
	}
	return fmt.Sprintf("  - {name: %s, kind: %s%s, keys: [env:%s]}\n", u.name, u.kind, url, variable)
}
