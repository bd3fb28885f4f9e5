package simulator

import "encoding/json"

// The answer's JSON, in the order of fields that the provider uses.

type response struct {
	Candidates     []wireCandidate `json:"candidates,omitempty"`
	PromptFeedback *feedback       `json:"promptFeedback,omitempty"`
	Usage          *usage          `json:"usageMetadata,omitempty"`
	ModelVersion   string          `json:"modelVersion,omitempty"`
	CreateTime     string          `json:"createTime,omitempty"`
	ResponseID     string          `json:"responseId,omitempty"`
}

// wrapped is the envelope of the private gateway.
type wrapped struct {
	Response response `json:"response"`
	TraceID  string   `json:"traceId"`
}

type wireCandidate struct {
	Content   content    `json:"content"`
	Finish    string     `json:"finishReason,omitempty"`
	Index     *int       `json:"index,omitempty"`
	Grounding *grounding `json:"groundingMetadata,omitempty"`
}

type content struct {
	Parts []part `json:"parts,omitempty"`
	Role  string `json:"role,omitempty"`
}

type part struct {
	Thought   bool          `json:"thought,omitempty"`
	Text      *string       `json:"text,omitempty"`
	Call      *functionCall `json:"functionCall,omitempty"`
	Inline    *inlineData   `json:"inlineData,omitempty"`
	Code      *code         `json:"executableCode,omitempty"`
	Result    *codeResult   `json:"codeExecutionResult,omitempty"`
	Signature string        `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
	ID   string          `json:"id,omitempty"`
}

type inlineData struct {
	MIME string `json:"mimeType"`
	Data string `json:"data"`
}

type code struct {
	Language string `json:"language"`
	Code     string `json:"code"`
}

type codeResult struct {
	Outcome string `json:"outcome"`
	Output  string `json:"output"`
}

type feedback struct {
	BlockReason string `json:"blockReason"`
}

type usage struct {
	Prompt     int    `json:"promptTokenCount,omitempty"`
	Candidates int    `json:"candidatesTokenCount,omitempty"`
	Total      int    `json:"totalTokenCount,omitempty"`
	Cached     int    `json:"cachedContentTokenCount,omitempty"`
	Thoughts   int    `json:"thoughtsTokenCount,omitempty"`
	Traffic    string `json:"trafficType,omitempty"`
}

type grounding struct {
	Queries  []string          `json:"webSearchQueries"`
	Entry    map[string]string `json:"searchEntryPoint"`
	Chunks   []groundingChunk  `json:"groundingChunks"`
	Supports []groundingClaim  `json:"groundingSupports"`
}

type groundingChunk struct {
	Web struct {
		URI    string `json:"uri"`
		Title  string `json:"title"`
		Domain string `json:"domain,omitempty"`
	} `json:"web"`
}

type groundingClaim struct {
	Segment    segment   `json:"segment"`
	Indices    []int     `json:"groundingChunkIndices"`
	Confidence []float64 `json:"confidenceScores,omitempty"`
}

// segment is in bytes of the text; a start of 0 is left out, as proto3 does.
type segment struct {
	Start int    `json:"startIndex,omitempty"`
	End   int    `json:"endIndex"`
	Text  string `json:"text"`
}

func textPart(s string) part    { return part{Text: &s} }
func thoughtPart(s string) part { return part{Text: &s, Thought: true} }

// bytes returns the size of a part from which tokens are estimated; images are counted separately.
func (p part) bytes() int {
	n := 0
	if p.Text != nil {
		n += len(*p.Text)
	}
	if p.Call != nil {
		n += len(p.Call.Name) + len(p.Call.Args)
	}
	if p.Code != nil {
		n += len(p.Code.Code)
	}
	if p.Result != nil {
		n += len(p.Result.Output)
	}
	return n
}
