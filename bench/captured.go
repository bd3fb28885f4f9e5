package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// capturedClients are the coding agents whose own requests are measured beside the generated ones,
// each with its dialect. The requests were recorded for the daemon's tests, with filler instead of
// prose.
var capturedClients = []struct {
	client  string
	dialect *dialect
}{
	{"gemini", gemini},
	{"opencode-openai-compatible", chat},
	{"codex", responses},
	{"claude", messages},
}

// capturesDir is where the recorded requests are, seen from this directory.
const capturesDir = "../internal/daemon/testdata/captures"

// capturedQuestions returns the last, and longest, streamed request of each captured client.
func capturedQuestions(dir string) (names []string, questions []question, err error) {
	for _, c := range capturedClients {
		body, err := lastBody(filepath.Join(dir, capturesDir, c.client+".jsonl.gz"))
		if err != nil {
			return nil, nil, err
		}
		names = append(names, c.dialect.name+", "+c.client)
		questions = append(questions, question{dialect: c.dialect, model: quickModel, body: body})
	}
	return names, questions, nil
}

// lastBody returns the body of the last request in a file of captures.
func lastBody(path string) (json.RawMessage, error) {
	packed, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var last struct{ Body json.RawMessage }
	for lines := json.NewDecoder(unpacked); ; {
		if err := lines.Decode(&last); errors.Is(err, io.EOF) {
			return last.Body, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// sourceDir returns the directory of this program's source.
func sourceDir(ctx context.Context) (string, error) {
	dir, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "./bench").Output()
	if err != nil {
		return "", fmt.Errorf("find the source: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}
