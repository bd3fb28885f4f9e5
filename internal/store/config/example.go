package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The example file. The line exampleMark is where the upstreams of the environment are.
//
//go:embed example.yaml
var example string

const exampleMark = "# ---\n"

// Example returns a configuration file that explains every key. It sets the address to listen on, the
// given upstreams of the environment and the one of Google Cloud credentials, unless that is nil; all
// other settings are commented out with # and no space behind it.
func Example(environment []EnvironmentUpstream, cloud *CloudUpstream) []byte {
	var found, others strings.Builder
	for _, u := range environmentUpstreams {
		at := slices.IndexFunc(environment, func(e EnvironmentUpstream) bool { return e.Name == u.name })
		switch {
		case at < 0:
			others.WriteString("#" + u.entry(u.variables[:min(1, len(u.variables))]...))
		case u.kind == KindOllama:
			u.url = environment[at].Address
			found.WriteString(u.entry())
		default:
			found.WriteString(u.entry(environment[at].Variable))
		}
	}
	if cloud != nil {
		found.WriteString(cloud.entry())
	} else {
		others.WriteString("#  - {name: cloud, kind: vertex, project: my-project}\n")
	}
	list := "upstreams:\n"
	if found.Len() == 0 {
		list = "#" + list
	}
	return []byte(strings.Replace(example, exampleMark, list+found.String()+others.String(), 1))
}

// A CloudUpstream is an upstream of Google Cloud credentials. Without a file, such credentials are not
// used: Google's tools write them for other purposes, too. Each member may be empty.
type CloudUpstream struct{ Project, Location, Credentials string }

func (u *CloudUpstream) entry() string {
	text := "  - {name: cloud, kind: vertex"
	for _, member := range []struct{ name, value string }{
		{"project", u.Project}, {"location", u.Location}, {"credentials", u.Credentials},
	} {
		if member.value != "" {
			text += ", " + member.name + ": " + strconv.Quote(member.value)
		}
	}
	return text + "}\n"
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
