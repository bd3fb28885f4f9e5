package rules

import "slices"

// Families lists all families.
func Families() []Family {
	return []Family{Claude, Gemini, Gemini2, GPTOSS, Image, Embedding}
}

// ModelTable lists the models of the simulator, by their upstream IDs.
func ModelTable() []Model {
	all := []string{"minimal", "low", "medium", "high"}
	three := all[1:]
	models := []Model{
		{ID: "claude-opus-4-6-thinking", Family: Claude, MaxOutput: 64000, Context: 200000, MinBudget: 1024, MaxBudget: 64000, ZeroBudget: true, DynamicBudget: true},
		{ID: "claude-sonnet-4-6", Family: Claude, MaxOutput: 64000, Context: 200000, MinBudget: 1024, MaxBudget: 64000, ZeroBudget: true, DynamicBudget: true},
		{ID: "claude-sonnet-4-5", Family: Claude, MaxOutput: 64000, Context: 200000, MinBudget: 1024, MaxBudget: 64000, ZeroBudget: true, DynamicBudget: true},
		{ID: "gemini-3.7-flash-high", Family: Gemini, MaxOutput: 65536, MinBudget: 1, MaxBudget: 65535, Levels: all},
		{ID: "gemini-3.6-flash-high", Family: Gemini, MaxOutput: 65536, MinBudget: 1, MaxBudget: 65535, Levels: all},
		{ID: "gemini-3-flash", Family: Gemini, MaxOutput: 65536, MinBudget: 128, MaxBudget: 32768, Levels: all},
		{ID: "gemini-3-flash-agent", Family: Gemini, MaxOutput: 65536, MinBudget: 128, MaxBudget: 32768, Levels: all},
		{ID: "gemini-3.5-flash-low", Family: Gemini, MaxOutput: 65535, MinBudget: 1, MaxBudget: 65535, Levels: three},
		{ID: "gemini-3.5-flash-extra-low", Family: Gemini, MaxOutput: 65535, MinBudget: 1, MaxBudget: 65535, Levels: three},
		{ID: "gemini-pro-agent", Family: Gemini, MaxOutput: 65535, MinBudget: 1, MaxBudget: 65535, Levels: three},
		{ID: "gemini-3.1-pro-low", Family: Gemini, MaxOutput: 65535, MinBudget: 1, MaxBudget: 65535, Levels: three},
		{ID: "gemini-3.1-flash-lite", Family: Gemini, MaxOutput: 65535, MinBudget: 1, MaxBudget: 65535, ZeroBudget: true, Levels: all},
		{ID: "gemini-3.1-flash-image", Family: Image, MinBudget: 128, MaxBudget: 32768, DynamicBudget: true, Levels: []string{"minimal", "high"}},
		{ID: "gemini-3-pro-preview", Family: Gemini, MaxOutput: 65536, MinBudget: 128, MaxBudget: 32768, Levels: []string{"low", "high"}},
		{ID: "gemini-3-flash-preview", Family: Gemini, MaxOutput: 65536, MinBudget: 128, MaxBudget: 32768, Levels: all},
		// Clients send budget 0 to 2.5 Pro, although its documentation states that it always
		// thinks.
		{ID: "gemini-2.5-pro", Family: Gemini2, MaxOutput: 65536, MinBudget: 128, MaxBudget: 32768, ZeroBudget: true},
		{ID: "gemini-2.5-flash", Family: Gemini2, MaxOutput: 65536, MinBudget: 1, MaxBudget: 24576, ZeroBudget: true},
		{ID: "gemini-2.5-flash-lite", Family: Gemini2, MaxOutput: 65536, MinBudget: 512, MaxBudget: 24576, ZeroBudget: true},
		{ID: "gpt-oss-120b-medium", Family: GPTOSS, MaxOutput: 32768, Context: 114000},
		{ID: "gemini-embedding-001", Family: Embedding, Context: 2048},
	}
	for i := range models {
		m := &models[i]
		m.Images = m.Family != GPTOSS && m.Family != Embedding
		m.Levels = slices.Clone(m.Levels)
		if m.Family == Gemini || m.Family == Gemini2 {
			m.Context, m.DynamicBudget = 1048576, true
		}
	}
	return models
}
