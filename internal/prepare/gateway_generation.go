package prepare

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"perigee"
	"perigee/internal/models"
	"perigee/internal/rawjson"
)

// generation keeps the knobs within what the gateway and the model have.
func (g *gateway) generation() {
	gen := &g.prompt.Generation
	gen.Extra = g.known(gen.Extra, "generationConfig.", generationMembers)
	g.numbers(gen)
	g.words(gen)
	g.drawing(gen)
	g.answerSchema()
	want := gen.Thinking
	gen.Thinking = nil
	g.gemini.generation()
	g.think(want)
}

// numbers drops those that the wire has no room for.
func (g *gateway) numbers(gen *perigee.Generation) {
	if n := gen.MaxOutputTokens; n != nil && *n < 1 {
		g.notes.add(perigee.NoteDropped, fmt.Sprintf("max output tokens %d", *n))
		gen.MaxOutputTokens = nil
	} else if n != nil && *n > math.MaxInt32 && g.spec.Output == 0 {
		gen.MaxOutputTokens = nil // as good as no limit
	}
	if n := gen.Seed; n != nil && (*n < math.MinInt32 || *n > math.MaxInt32) {
		g.notes.add(perigee.NoteDropped, fmt.Sprintf("seed %d", *n))
		gen.Seed = nil
	}
	if n := gen.Candidates; n != nil && *n != 1 {
		if *n > 1 {
			g.notes.add(perigee.NoteDropped, "candidates after 1") // the gateway gives one, whatever it is asked for
		}
		gen.Candidates = new(int64(1))
	}
}

// words drops what says nothing, and kinds of answers that the model does not give.
func (g *gateway) words(gen *perigee.Generation) {
	if gen.ResponseMIME == undefined {
		gen.ResponseMIME = ""
	}
	void := func(s string) bool { return s == undefined || strings.TrimSpace(s) == "" && (s == "" || g.claude()) }
	if slices.ContainsFunc(gen.Stop, void) {
		gen.Stop = slices.DeleteFunc(slices.Clone(gen.Stop), void)
	}
	if len(gen.Stop) == 0 {
		gen.Stop = nil
	}
	foreign := func(m string) bool {
		return !strings.EqualFold(m, "TEXT") && (g.spec.Family != models.Image || !strings.EqualFold(m, "IMAGE"))
	}
	for _, m := range gen.Modalities {
		if foreign(m) && m != undefined {
			g.notes.add(perigee.NoteDropped, "response modality "+clip(m))
		}
	}
	if slices.ContainsFunc(gen.Modalities, foreign) {
		gen.Modalities = slices.DeleteFunc(slices.Clone(gen.Modalities), foreign)
	}
	if len(gen.Modalities) == 0 {
		gen.Modalities = nil
	}
}

const imageConfig = "imageConfig"

// drawing keeps what is asked of a picture to what can be had, and away from models that do not draw.
func (g *gateway) drawing(gen *perigee.Generation) {
	at := slices.IndexFunc(gen.Extra, func(f perigee.Field) bool { return f.Name == imageConfig })
	if g.spec.Family == models.Image && gen.ResponseMIME != "" {
		gen.ResponseMIME = ""
	}
	if at < 0 {
		return
	}
	var config []byte
	if g.spec.Family == models.Image {
		config = g.imageConfig(gen.Extra[at].Value)
	} else {
		g.notes.add(perigee.NoteDropped, "generationConfig."+imageConfig)
	}
	extra := slices.Delete(slices.Clone(gen.Extra), at, at+1)
	if config != nil {
		extra = slices.Insert(extra, at, perigee.Field{Name: imageConfig, Value: config})
	}
	gen.Extra = extra
}

var (
	aspectRatios = []string{"1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"}
	imageSizes   = []string{"1K", "2K", "4K"}
)

// imageConfig returns the form of a picture without what the model cannot do; nil: nothing is left.
func (g *gateway) imageConfig(raw json.RawMessage) []byte {
	if !isObject(raw) {
		return nil
	}
	out := []byte{'{'}
	keep := func(name, value string, legal []string) {
		if !slices.Contains(legal, value) {
			g.notes.add(perigee.NoteDropped, imageConfig+"."+name+" "+clip(value))
			return
		}
		out = rawjson.AppendString(separate(out, 1), name)
		out = rawjson.AppendString(append(out, ':'), value)
	}
	c := rawjson.NewCursor(raw)
	for key := range c.Object() {
		name := string(key)
		switch {
		case c.Kind() != rawjson.String:
			g.notes.add(perigee.NoteDropped, imageConfig+"."+clip(name))
		case name == "aspectRatio" || name == "aspect_ratio":
			keep("aspectRatio", c.String(), aspectRatios)
		case name == "imageSize" || name == "image_size":
			keep("imageSize", strings.ToUpper(c.String()), imageSizes)
		default:
			g.notes.add(perigee.NoteDropped, imageConfig+"."+clip(name))
		}
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, '}')
}

// think says what the client wants in terms that the gateway takes from the model.
func (g *gateway) think(asked *perigee.Thinking) {
	gen := &g.prompt.Generation
	if g.repairs(RepairThinkingOff) {
		if asked == nil && g.spec.Thinking.Zero {
			gen.Thinking = &perigee.Thinking{Budget: new(int64(0))} // then the model thinks unless it is told not to
		}
		return
	}
	if asked == nil {
		return
	}
	want := *asked
	want.Extra = nil
	g.known(asked.Extra, "thinkingConfig.", nil)
	want.Level = g.knownLevel(want.Level)
	g.spellOut(&want)
	gen.Thinking = g.thinking(want)
	switch t := gen.Thinking; {
	case t == nil:
	case t.Budget != nil && *t.Budget > 0 && *t.Budget >= g.outputLimit() && g.outputLimit() > 0:
		// It cannot think so little as would leave room for the answer. How much it thinks is then up to it.
		t.Budget = nil
		if len(g.spec.Thinking.Levels) > 0 {
			t.Level = g.spec.Thinking.Levels[0]
		}
	case g.claude():
		g.thinkAsClaude(t)
	}
	if t := gen.Thinking; t != nil && t.Include == nil && t.Budget == nil && t.Level == "" {
		gen.Thinking = nil
	}
}

// knownLevel returns a level that some model has, or nothing.
func (g *gateway) knownLevel(level string) string {
	switch lower := strings.ToLower(level); lower {
	case "", undefined, "thinking_level_unspecified":
		return ""
	case "none", "off", "auto", "dynamic":
		return lower
	default:
		if !slices.Contains(levels, lower) {
			g.notes.add(perigee.NoteDropped, "thinking level "+clip(level))
			return ""
		}
		return lower
	}
}

// usualBudget is how much Claude thinks when nobody says how much.
const usualBudget = 16384

// spellOut replaces what the gateway does not always take or takes for something else: a budget that is up to the model,
// and thoughts that are to be shown but have no budget, which make Claude write them into its answer.
func (g *gateway) spellOut(want *perigee.Thinking) {
	if want.Budget != nil && *want.Budget < 0 && want.Level != "" {
		want.Budget = nil // the level says more
	}
	open := want.Level == "auto" || want.Level == "dynamic" || want.Level == "" && want.Budget != nil && *want.Budget < 0
	unsaid := want.Level == "" && want.Budget == nil && want.Include != nil && *want.Include
	switch {
	case g.claude() && (open || unsaid):
		budget := int64(usualBudget)
		if limit := g.outputLimit(); budget >= limit {
			budget = limit / 2
		}
		if budget < g.spec.Thinking.Min {
			budget = 0
		}
		want.Level, want.Budget = "", &budget
	case g.spec.Family == models.Gemini && open:
		want.Level, want.Budget = "", nil // it is what these models do anyway
	}
}

// thinkAsClaude completes what Claude wants to be told beside the budget.
func (g *gateway) thinkAsClaude(t *perigee.Thinking) {
	if t.Budget == nil {
		t.Include = nil // there is nothing to show
		return
	}
	if *t.Budget == 0 {
		return
	}
	if t.Include == nil {
		t.Include = new(true)
	}
	if gen := &g.prompt.Generation; gen.MaxOutputTokens == nil {
		gen.MaxOutputTokens = new(g.spec.Output)
	}
}
