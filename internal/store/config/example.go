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

// Example returns a configuration file that explains every key. It sets the address to listen on, the
// upstreams of the environment and the one of Google Cloud credentials; all other settings are commented out with #
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
	if cloud, ok := cloudEntry(src); ok {
		found.WriteString(cloud)
	} else {
		others.WriteString("#" + cloud)
	}
	list := "upstreams:\n"
	if found.Len() == 0 {
		list = "#" + list
	}
	return []byte(strings.Replace(example, exampleMark, list+found.String()+others.String(), 1))
}

// cloudEntry returns the entry of an upstream with the Google Cloud credentials of this machine, and
// whether there are any. Without a file, such credentials are not used: Google's tools write them for
// other purposes, too.
func cloudEntry(src Sources) (text string, found bool) {
	project := ""
	if src.GoogleProject != nil {
		project, found = src.GoogleProject()
	}
	if !found {
		return "  - {name: cloud, kind: vertex, project: my-project}\n", false
	}
	text = "  - {name: cloud, kind: vertex"
	for _, member := range []struct{ name, value string }{
		{"project", project}, {"location", src.lookup("GOOGLE_CLOUD_LOCATION")},
	} {
		if member.value != "" {
			text += ", " + member.name + ": " + strconv.Quote(member.value)
		}
	}
	return text + "}\n", true
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
