package rules

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

func FuzzCheck(f *testing.F) {
	for _, rule := range Table() {
		f.Add(rule.Pass.Input().Body, byte(0))
		f.Add(rule.Fail.Input().Body, byte(1))
	}
	archive, err := txtar.ParseFile("testdata/clients.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		f.Add(file.Data, byte(2))
	}
	models := ModelTable()
	f.Fuzz(func(t *testing.T, body []byte, way byte) {
		in := Input{Surface: Surface(way & 1), Method: Method(way >> 1 & 1), Model: models[int(way>>2)%len(models)], Body: body, Switches: DefaultSwitches(), Verify: ExampleVerify}
		before := bytes.Clone(body)
		in.Switches.RejectDuplicateSpelling = way&128 != 0
		refusal := CheckEnvelope(in)
		listed := func(r *Refusal) bool {
			return r == nil || r.Message != "" && slices.ContainsFunc(Table(), func(rule Rule) bool { return rule.Name == r.Rule })
		}
		if !listed(refusal) {
			t.Errorf("envelope: refused without words or by an unlisted rule: %+v", refusal)
		}
		parsed, refusal := Check(in)
		if (parsed == nil) == (refusal == nil) {
			t.Fatalf("parsed %v, refusal %v", parsed, refusal)
		}
		if !listed(refusal) {
			t.Errorf("refused without words or by an unlisted rule: %+v", refusal)
		}
		if !bytes.Equal(before, body) {
			t.Error("body was changed")
		}
		if parsed == nil {
			return
		}
		for _, fn := range parsed.Functions {
			if fn.Parameters != nil && !json.Valid(fn.Parameters) {
				t.Errorf("parameters of %s are cut: %s", fn.Name, fn.Parameters)
			}
		}
	})
}

func TestLargeAndHostileBodiesGetShortAnswers(t *testing.T) {
	bodies := map[string]string{
		"blob":          `{"contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"` + strings.Repeat("AAAA", 1<<20) + `"}}]}]}`,
		"unknown names": `{` + strings.Repeat(`"x":1,`, 1<<17) + `"y":1}`,
		"deep list":     `{"x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`,
		"deep schema":   `{"generationConfig":{"responseSchema":` + strings.Repeat(`{"items":`, 9000) + `{}` + strings.Repeat(`}`, 9000) + `}}`,
		"empty parts":   `{"contents":[{"parts":[` + strings.Repeat(`{},`, 1<<15) + `{}]}]}`,
		"required":      `{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[{"name":"f","parameters":{"required":[` + strings.Repeat(`"a",`, 1<<15) + `"a"]}}]}]}`,
		"turns":         `{"contents":[` + strings.Repeat(`{"role":"model","parts":[{"functionCall":{"name":"f"}}]},`, 1<<12) + `{"parts":[{"text":"a"}]}]}`,
	}
	for name, body := range bodies {
		parsed, refusal := judge(Input{Surface: V1Beta, Model: modelNamed(t, "gemini-2.5-pro"), Body: []byte(body), Switches: DefaultSwitches()})
		if refusal != nil && len(refusal.Message) > 64<<10 {
			t.Errorf("%s: the refusal is %d bytes long", name, len(refusal.Message))
		}
		if name == "blob" && (parsed == nil || parsed.TextBytes != 0) {
			t.Errorf("blob: refused: %+v", refusal)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	large := []byte(`{"contents":[{"parts":[{"text":"look"},{"inlineData":{"mimeType":"image/png","data":"` + strings.Repeat("AAAA", 50<<18) + `"}}]}]}`)
	archive, err := txtar.ParseFile("testdata/clients.txtar")
	if err != nil {
		b.Fatal(err)
	}
	model := ModelTable()[slices.IndexFunc(ModelTable(), func(m Model) bool { return m.ID == "gemini-2.5-pro" })]
	for name, body := range map[string][]byte{"50MB": large, "small": archive.Files[0].Data} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := Check(Input{Surface: V1Beta, Model: model, Body: body, Switches: DefaultSwitches()}); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
