package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"strings"

	"perigee/internal/simulator/rules"
)

const (
	defaultDimensions = 3072
	maxBatch          = 100
)

// embedRequest is one text to embed.
type embedRequest struct {
	Model                string        `json:"model"`
	Content              *embedContent `json:"content"`
	TaskType             string        `json:"taskType"`
	Title                string        `json:"title"`
	OutputDimensionality *int          `json:"outputDimensionality"`
}

type embedContent struct {
	Role  string `json:"role"`
	Parts []struct {
		Text string `json:"text"`
	} `json:"parts"`
}

type embedding struct {
	Values []float64 `json:"values"`
}

// embed serves embedContent and batchEmbedContents.
func (x *exchange) embed(model rules.Model, batch bool) {
	var requests []embedRequest
	var err error
	if batch {
		var body struct {
			Requests []embedRequest `json:"requests"`
		}
		err = decodeKnown(x.body, &body)
		requests = body.Requests
	} else {
		requests = make([]embedRequest, 1)
		err = decodeKnown(x.body, &requests[0])
	}
	if err != nil {
		x.writeError(invalid("embed.body", "Invalid JSON payload received. %s", strings.TrimPrefix(err.Error(), "json: ")))
		return
	}
	if refused := checkEmbeds(requests, model, batch); refused != nil {
		x.writeError(refused)
		return
	}
	if x.strike(stageCapacity, stageCapacity) || x.strike(stageQuota, stageQuota) {
		return
	}
	if refused := x.people.spendKey(x.key, model.ID, x.server.now()); refused != nil {
		x.writeError(refused)
		return
	}
	embeddings := make([]embedding, len(requests))
	for i, request := range requests {
		embeddings[i].Values = x.server.vector(model.ID, request.text(), request.dimensions())
	}
	if batch {
		writeJSON(x.w, http.StatusOK, map[string]any{"embeddings": embeddings})
		return
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"embedding": embeddings[0]})
}

func decodeKnown(body []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	return decoder.Decode(v)
}

func checkEmbeds(requests []embedRequest, model rules.Model, batch bool) *statusError {
	if len(requests) == 0 {
		return invalid("embed.empty", "BatchEmbedContentsRequest.requests: at least one request is required")
	}
	if len(requests) > maxBatch {
		return invalid("embed.batch", "BatchEmbedContentsRequest.requests: at most %d requests can be in one batch", maxBatch)
	}
	for _, r := range requests {
		switch {
		case batch && r.Model == "":
			return invalid("embed.model", "BatchEmbedContentsRequest.requests[].model: model is required")
		case r.Model != "" && strings.TrimPrefix(r.Model, "models/") != model.ID:
			return invalid("embed.model", "The model of a request must be the model of the call: models/%s", model.ID)
		case r.Content == nil || len(r.Content.Parts) == 0 || r.text() == "":
			return invalid("embed.content", "EmbedContentRequest.content: content is required and must not be empty")
		case r.OutputDimensionality != nil && (*r.OutputDimensionality < 1 || *r.OutputDimensionality > defaultDimensions):
			return invalid("embed.dimensions", "EmbedContentRequest.output_dimensionality: must be from 1 to %d", defaultDimensions)
		}
	}
	return nil
}

func (r embedRequest) text() string {
	var b strings.Builder
	for _, p := range r.Content.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func (r embedRequest) dimensions() int {
	if r.OutputDimensionality != nil {
		return *r.OutputDimensionality
	}
	return defaultDimensions
}

// vector returns a point on the unit sphere that depends on words: texts that share words are
// nearer to each other than texts that do not, so that a search over such vectors has results.
func (s *Server) vector(model, text string, n int) []float64 {
	sum := make([]float64, n)
	for _, word := range strings.Fields(strings.ToLower(text)) {
		seed := sha256.Sum256([]byte(s.seed + "\x00" + model + "\x00" + word))
		for i := 0; i < n; i += 4 {
			var block [40]byte
			copy(block[:], seed[:])
			binary.BigEndian.PutUint64(block[32:], uint64(i))
			noise := sha256.Sum256(block[:])
			for k := 0; k < 4 && i+k < n; k++ {
				sum[i+k] += float64(int64(binary.BigEndian.Uint64(noise[8*k:]))) / math.MaxInt64
			}
		}
	}
	norm := 0.0
	for _, v := range sum {
		norm += v * v
	}
	if norm == 0 {
		sum[0], norm = 1, 1
	}
	for i := range sum {
		sum[i] /= math.Sqrt(norm)
	}
	return sum
}
