package config

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// The example file. The line exampleMark is where the upstreams of the environment are.
//
//go:embed example.yaml
var example string

const exampleMark = "# ---\n"

// Example returns a configuration file that explains every key. It sets the address to listen on
// and the upstreams of the environment; all other settings are commented out with #
// and no space behind it.
func Example(src Sources) []byte {
	src = newLoader(src).src
	var found, others strings.Builder
	for _, u := range environmentUpstreams {
		variable, _ := u.keyIn(src)
		switch address := OllamaAddress(src.lookup(ollamaHost)); {
		case u.kind == KindOllama && src.AnswersOllama != nil && src.AnswersOllama(address):
			u.url = address
			found.WriteString(u.entry())
		case variable != "":
			found.WriteString(u.entry(variable))
		default:
			others.WriteString("#" + u.entry(u.variables[:min(1, len(u.variables))]...))
		}
	}
	list := "upstreams:\n"
	if found.Len() == 0 {
		list = "#" + list
	}
	return []byte(strings.Replace(example, exampleMark, list+found.String()+others.String(), 1))
}

// entry returns the entry of an upstream under upstreams, with its key in a variable, if it has one.
func (u environmentUpstream) entry(variable ...string) string {
	text := fmt.Sprintf("  - {name: %s, kind: %s", u.name, u.kind)
	if u.url != "" && u.url != KindOf(u.kind).URL {
		text += ", url: " + strconv.Quote(u.url)
	}
	for _, name := range variable {
		text += ", keys: [env:" + name + "]"
	}
	return text + "}\n"
}
