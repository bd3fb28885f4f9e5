package models

// Modalities that many models share.
var (
	text      = []string{"text"}
	textImage = []string{"text", "image"}
	media     = []string{"text", "image", "audio", "video"}
	vector    = []string{"vector"}
)

// Ways of thinking that many models share.
var (
	minimalUp = []string{"minimal", "low", "medium", "high"}
	lowUp     = minimalUp[1:]
	lowHigh   = []string{"low", "high"}

	thinking3       = Thinking{Min: 128, Max: 32768, Dynamic: true, Levels: minimalUp}
	thinking3Pro    = Thinking{Min: 128, Max: 32768, Dynamic: true, Levels: lowHigh}
	thinking31Pro   = Thinking{Min: 128, Max: 32768, Dynamic: true, Levels: lowUp}
	thinking35      = Thinking{Min: 1, Max: 65535, Dynamic: true, Levels: lowUp}
	thinking36      = Thinking{Min: 1, Max: 65535, Dynamic: true, Levels: minimalUp}
	thinking31Lite  = Thinking{Min: 1, Max: 65535, Dynamic: true, Levels: minimalUp, Zero: true}
	claudeThinking  = Thinking{Min: 1024, Max: 64000, Zero: true, Dynamic: true}
	thinking25Pro   = Thinking{Min: 128, Max: 32768, Dynamic: true} // it always thinks
	thinking25Flash = Thinking{Min: 1, Max: 24576, Zero: true, Dynamic: true}
	thinking25Lite  = Thinking{Min: 512, Max: 24576, Zero: true, Dynamic: true}
)

func claude(id, name, instead string) Spec {
	return Spec{ID: id, Name: name, Family: Claude, Context: 200000, Output: 64000, In: textImage, Out: text,
		Thinking: claudeThinking, Instead: instead}
}

func gemini(id, name string, output int64, thinking Thinking, instead string) Spec {
	family := Gemini
	if generation(id) < 3 {
		family = Gemini2
	}
	return Spec{ID: id, Name: name, Family: family, Context: 1048576, Output: output, In: media, Out: text,
		Thinking: thinking, Instead: instead}
}

// image returns a model that generates images. The newer ones think, but requesting it spoils the
// image or is refused.
func image(id, name string, context, output int64, instead string) Spec {
	return Spec{ID: id, Name: name, Family: Image, Context: context, Output: output, In: textImage, Out: textImage, Instead: instead}
}

func embedding(id, name string, context int64) Spec {
	return Spec{ID: id, Name: name, Family: Embedding, Context: context, Output: 1, In: text, Out: vector}
}

// table lists the models by family, the newest first. Names are the sources' own: where the suffix
// of an id and its label disagree (gemini-3.5-flash-low is called Medium), both are the provider's.
var table = []Spec{
	claude("claude-opus-4-6-thinking", "Claude Opus 4.6 (Thinking)", ""),
	claude("claude-sonnet-4-6", "Claude Sonnet 4.6 (Thinking)", ""),
	claude("claude-sonnet-4-6-thinking", "Claude Sonnet 4.6 (Thinking)", "claude-sonnet-4-6"),
	claude("claude-opus-4-5-thinking", "Claude Opus 4.5 (Thinking)", "claude-opus-4-6-thinking"),
	claude("claude-sonnet-4-5", "Claude Sonnet 4.5", "claude-sonnet-4-6"),
	claude("claude-sonnet-4-5-thinking", "Claude Sonnet 4.5 (Thinking)", "claude-sonnet-4-6"),

	// The Antigravity sources.
	gemini("gemini-3.7-flash-high", "Gemini 3.7 Flash", 65536, thinking36, ""),
	gemini("gemini-3.6-flash-high", "Gemini 3.6 Flash", 65536, thinking36, ""),
	gemini("gemini-3-flash", "Gemini 3 Flash", 65536, thinking3, "gemini-3-flash-preview"),
	gemini("gemini-3-flash-agent", "Gemini 3.5 Flash (High)", 65536, thinking3, ""),
	gemini("gemini-3.5-flash-low", "Gemini 3.5 Flash (Medium)", 65535, thinking35, ""),
	gemini("gemini-3.5-flash-extra-low", "Gemini 3.5 Flash (Low)", 65535, thinking35, ""),
	gemini("gemini-pro-agent", "Gemini 3.1 Pro (High)", 65535, thinking35, ""),
	gemini("gemini-3.1-pro-low", "Gemini 3.1 Pro (Low)", 65535, thinking35, ""),
	gemini("gemini-3.1-pro-high", "Gemini 3.1 Pro (High)", 65535, thinking35, "gemini-pro-agent"),
	gemini("gemini-3-pro-high", "Gemini 3 Pro (High)", 65535, thinking3Pro, "gemini-pro-agent"),
	gemini("gemini-3-pro-low", "Gemini 3 Pro (Low)", 65535, thinking3Pro, "gemini-3.1-pro-low"),
	gemini("gemini-3.1-flash-lite", "Gemini 3.1 Flash Lite", 65535, thinking31Lite, "gemini-3.1-flash-lite-preview"),

	// The official API.
	gemini("gemini-3.1-pro-preview", "Gemini 3.1 Pro Preview", 65536, thinking31Pro, ""),
	gemini("gemini-3.1-pro-preview-customtools", "Gemini 3.1 Pro Preview Custom Tools", 65536, thinking31Pro, "gemini-3.1-pro-preview"),
	gemini("gemini-3.1-flash-lite-preview", "Gemini 3.1 Flash Lite Preview", 65536, thinking36, "gemini-3.1-flash-lite"),
	gemini("gemini-3-pro-preview", "Gemini 3 Pro Preview", 65536, thinking3Pro, "gemini-3.1-pro-preview"),
	gemini("gemini-3-flash-preview", "Gemini 3 Flash Preview", 65536, thinking3, "gemini-3-flash"),
	gemini("gemini-2.5-pro", "Gemini 2.5 Pro", 65536, thinking25Pro, ""),
	gemini("gemini-2.5-flash", "Gemini 2.5 Flash", 65536, thinking25Flash, ""),
	gemini("gemini-2.5-flash-thinking", "Gemini 2.5 Flash (Thinking)", 65536, thinking25Flash, "gemini-2.5-flash"),
	gemini("gemini-2.5-flash-lite", "Gemini 2.5 Flash-Lite", 65536, thinking25Lite, ""),
	gemini("gemini-2.0-flash", "Gemini 2.0 Flash", 8192, Thinking{}, "gemini-2.5-flash"),
	gemini("gemini-2.0-flash-lite", "Gemini 2.0 Flash-Lite", 8192, Thinking{}, "gemini-2.5-flash-lite"),
	gemini("gemini-1.5-pro", "Gemini 1.5 Pro", 8192, Thinking{}, "gemini-2.5-pro"),
	gemini("gemini-1.5-flash", "Gemini 1.5 Flash", 8192, Thinking{}, "gemini-2.5-flash"),

	image("gemini-3.1-flash-image", "Gemini 3.1 Flash Image", 0, 0, "gemini-3.1-flash-image-preview"),
	image("gemini-3.1-flash-image-preview", "Gemini 3.1 Flash Image Preview", 131072, 32768, "gemini-3.1-flash-image"),
	image("gemini-3-pro-image", "Gemini 3 Pro Image", 0, 0, "gemini-3-pro-image-preview"),
	image("gemini-3-pro-image-preview", "Gemini 3 Pro Image Preview", 65536, 32768, "gemini-3-pro-image"),
	image("gemini-2.5-flash-image", "Gemini 2.5 Flash Image", 32768, 32768, ""),
	image("gemini-2.5-flash-image-preview", "Gemini 2.5 Flash Image Preview", 32768, 32768, "gemini-2.5-flash-image"),

	embedding("gemini-embedding-001", "Gemini Embedding 001", 2048),
	embedding("text-embedding-004", "Text Embedding 004", 2048),

	{ID: "gpt-oss-120b-medium", Name: "GPT-OSS 120B (Medium)", Family: GPTOSS, Context: 114000, Output: 32768, In: text, Out: text},
}

// index finds a model's place in the table by its id.
var index = func() map[string]int {
	m := make(map[string]int, len(table))
	for i := range table {
		m[table[i].ID] = i
	}
	return m
}()
