package perigeetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// DefaultConfig is what a transcript without a config runs under.
const DefaultConfig = `upstreams:
  - {name: studio, kind: gemini, url: "{{provider}}", keys: [studio-key]}
`

// A transcript is a file while it is played: the expected messages and the real ones.
type transcript struct {
	archive *txtar.Archive
	config  string
	wants   map[string]string // part to text, for the parts that are expectations
	rounds  []*round
	script  []*exchange
	numbers []int // of the upstream.response parts, in the order of script
}

// A round is one request of the client's.
type round struct {
	number   int
	request  string
	response string // as received
	call     string // as it was recorded; empty means it was not
}

// parseTranscript reads a file. The placeholders in it are replaced already.
func parseTranscript(archive *txtar.Archive) (*transcript, error) {
	t := &transcript{archive: archive, config: DefaultConfig, wants: map[string]string{}}
	for _, f := range archive.Files {
		kind, number, err := splitName(f.Name)
		if err != nil {
			return nil, err
		}
		text := string(f.Data)
		switch kind {
		case "config":
			t.config = text
		case "request":
			t.rounds = append(t.rounds, &round{number: number, request: text})
		case "upstream.response":
			t.numbers = append(t.numbers, number)
		case "upstream.request", "response", "call":
			t.wants[f.Name] = text
		default:
			return nil, fmt.Errorf("unknown part %q", f.Name)
		}
	}
	if len(t.rounds) == 0 {
		return nil, fmt.Errorf("there is no request")
	}
	for _, f := range archive.Files {
		if kind, number, _ := splitName(f.Name); kind == "upstream.response" {
			x, err := parseExchange(t.wants[partName("upstream.request", number)], string(f.Data))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
			t.script = append(t.script, x)
		}
	}
	return t, nil
}

// splitName takes the number off the name of a part.
func splitName(name string) (kind string, number int, err error) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || name[i+1:] == "request" || name[i+1:] == "response" {
		return name, 1, nil
	}
	number, err = strconv.Atoi(name[i+1:])
	if err != nil || number < 2 {
		return "", 0, fmt.Errorf("unknown part %q", name)
	}
	return name[:i], number, nil
}

func partName(kind string, number int) string {
	if number == 1 {
		return kind
	}
	return kind + "." + strconv.Itoa(number)
}

// actual returns the archive with the expectations replaced by what happened: each request of
// perigee's before its answer, each response and call after the upstream parts of its round.
func (t *transcript) actual(asked []string) *txtar.Archive {
	a := &txtar.Archive{Comment: t.archive.Comment}
	add := func(name, text string) {
		if text != "" {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	var current *round
	conclude := func() {
		if current != nil {
			add(partName("response", current.number), current.response)
			add(partName("call", current.number), current.call)
		}
	}
	for _, f := range t.archive.Files {
		kind, number, _ := splitName(f.Name)
		switch kind {
		case "request":
			conclude()
			current = t.rounds[slices.IndexFunc(t.rounds, func(r *round) bool { return r.number == number })]
			add(f.Name, string(f.Data))
		case "upstream.response":
			add(partName("upstream.request", number), asked[slices.Index(t.numbers, number)])
			add(f.Name, string(f.Data))
		case "config":
			add(f.Name, string(f.Data))
		}
	}
	conclude()
	return a
}
