package command

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"perigee/internal/lib/wire"
)

// ollamaTime is how long an Ollama server may take to answer.
const ollamaTime = 300 * time.Millisecond

// AnswersOllama reports whether an Ollama server answers at a base URL.
func AnswersOllama(url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), ollamaTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/version", nil)
	if err != nil {
		return false
	}
	client := wire.NewClient(nil)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Version string `json:"version"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&answer)
	return err == nil && resp.StatusCode == http.StatusOK && answer.Version != ""
}
