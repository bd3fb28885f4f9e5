package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"perigee"
)

// A page that lacks a value fails only when it is shown, which may be rarely. So each use of
// package html is counted here.
func TestEveryPlaceHasAValue(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, entry := range entries {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			function, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if receiver, ok := function.X.(*ast.Ident); !ok || receiver.Name != "html" {
				return true
			}
			at, values := 0, 0
			switch function.Sel.Name {
			case "F":
				values = len(call.Args) - 1
			case "If":
				at, values = 1, len(call.Args)-2
			case "With":
				at, values = 1, 1
			default:
				return true
			}
			counted++
			if places := strings.Count(constant(t, call.Args[at]), "{}"); places != values {
				t.Errorf("%s: %d places and %d values", files.Position(call.Pos()), places, values)
			}
			return true
		})
	}
	if counted < 100 {
		t.Errorf("only %d uses were found", counted)
	}
}

func TestStatusOfACall(t *testing.T) {
	for want, c := range map[string]perigee.Call{
		`<span class="pill ok">200</span>`:      {Outcome: perigee.OutcomeDone, ClientStatus: 200},
		`<span class="pill ok">done</span>`:     {Outcome: perigee.OutcomeDone},
		`<span class="pill live">open</span>`:   {Outcome: perigee.OutcomeOpen},
		`<span class="pill">canceled</span>`:    {Outcome: perigee.OutcomeCanceled},
		`<span class="pill bad">cut off</span>`: {Outcome: perigee.OutcomeCutOff, ClientStatus: 200},
		`<span class="pill bad">429</span>`:     {Outcome: perigee.OutcomeFailed, ClientStatus: 429},
	} {
		if row := CallRow(Times{Zone: time.UTC}, c).String(); !strings.Contains(row, want) {
			t.Errorf("no %s in %s", want, row)
		}
	}
}

func TestTimesOfOtherDaysHaveTheDay(t *testing.T) {
	times := Times{time.Date(2026, 11, 16, 14, 20, 4, 0, time.UTC), time.FixedZone("east", 12*3600)}
	for ago, want := range map[time.Duration]string{0: "02:20:04", 3 * time.Hour: "16 Nov 23:20", 366 * 24 * time.Hour: "16 Nov 2025 02:20"} {
		if got := times.clock(times.Now.Add(-ago)); got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
}

// constant is the text of strings with + between them.
func constant(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return constant(t, e.X) + constant(t, e.Y)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	t.Fatalf("the markup is a %T, and should be a string", e)
	return ""
}
