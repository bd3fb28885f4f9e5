package simulator

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the expected parts of the transcripts")

var bearerOf = regexp.MustCompile(`\{token of ([^}]+)\}`)

// TestTranscripts plays testdata/*.txtar: sections "request" are sent in order, each "response" is
// what must come back; "script" and "profile" configure the
// simulator. "{token of EMAIL}" stands for an access
// token. Carriage returns are shown as ␍. Run with -update to rewrite the responses.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playTranscript(t, file) })
	}
}

func playTranscript(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Seed: "transcript", Admin: true}
	var played []txtar.File
	var r *rig
	for i, section := range archive.Files {
		switch section.Name {
		case "script":
			if options.Script, err = LoadScript(bytes.NewReader(section.Data)); err != nil {
				t.Fatal(err)
			}
			played = append(played, section)
		case "profile":
			options.Profile = strings.TrimSpace(string(section.Data))
			played, r = append(played, section), nil // the requests that follow go to another server
		case "request":
			if r == nil {
				r = newRig(t, options)
			}
			got := r.play(section.Data)
			played = append(played, section, txtar.File{Name: "response", Data: got})
			if *update {
				continue
			}
			if i+1 == len(archive.Files) || archive.Files[i+1].Name != "response" {
				t.Fatalf("section %d: a request without response", i)
			}
			if want := archive.Files[i+1].Data; !bytes.Equal(got, want) {
				t.Errorf("request %q\ngot:\n%s\nwant:\n%s", firstLine(section.Data), got, want)
			}
		case "response":
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: played}), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return string(line)
}

// play sends one request as written in a transcript and writes down the answer.
func (r *rig) play(section []byte) []byte {
	r.t.Helper()
	text := bearerOf.ReplaceAllStringFunc(string(section), func(match string) string {
		return r.token(bearerOf.FindStringSubmatch(match)[1])
	})
	head, body, _ := strings.Cut(text, "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	lines.Scan()
	method, path, ok := strings.Cut(lines.Text(), " ")
	if !ok {
		r.t.Fatalf("no request line in %q", section)
	}
	var header []string
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		header = append(header, name, value)
	}
	a := r.do(method, path, strings.TrimSpace(body), header...)
	var out bytes.Buffer
	fmt.Fprintf(&out, "%d %s\n", a.status, http.StatusText(a.status))
	for _, name := range []string{"Content-Type", "Location", "Retry-After"} {
		if value := a.header.Get(name); value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintf(&out, "\n%s", strings.ReplaceAll(a.body, "\r", "␍"))
	if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteString("\n")
	}
	return out.Bytes()
}
