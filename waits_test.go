package perigee_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWaitsHaveALimit finds waits in tests that go on until go test ends the whole package, and
// then say nothing of what they waited for: a receive outside of select, a Wait method, a program
// without a context. The package await has one function for each. In a synctest bubble nothing is
// found, because a bubble in which nothing can happen fails at once; nor in goroutines and HTTP
// handlers, because the test waits for those. A function that always runs in a goroutine of its own
// says so in its comment, with the word goroutine. A function that gets a context may wait for its
// end.
func TestWaitsHaveALimit(t *testing.T) {
	eachTestFile(t, func(files *token.FileSet, file *ast.File) {
		for _, found := range endlessWaits(file) {
			t.Errorf("%s: %s", files.Position(found.at), found.text)
		}
	})
}

// TestTimeInTests finds tests on the real clock. Tests about time run in synctest bubbles; a wait
// for an event is one of package await. A function that is called only inside bubbles says so in
// its comment, with the word bubble. Where the real clock is needed, the comment of the function
// says why, after "Real time:".
func TestTimeInTests(t *testing.T) {
	eachTestFile(t, func(files *token.FileSet, file *ast.File) {
		for _, found := range realClocks(file) {
			t.Errorf("%s: %s", files.Position(found.at), found.text)
		}
	})
}

// TestWaitsAndClocksAreFound holds what the two tests above find: the lines of this file that end
// in a comment.
func TestWaitsAndClocksAreFound(t *testing.T) {
	const source = `package p

func TestBare(t *testing.T) {
	<-events // found
	t.Cleanup(func() { got := <-events }) // found
	select {
	case <-events: // found
	}
	select {
	case <-events:
		group.Wait() // found
	case <-time.After(time.Second): // found
	}
	exec.Command("sleep", "1").Run() // found
	time.Sleep(time.Second) // found
	await.Receive(t, events, "an event")
	exec.CommandContext(t.Context(), "sleep", "1").Run()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		<-events
		group.Wait()
		synctest.Wait()
	})
	go func() { <-events }()
	group.Go(func() { <-events })
	handle(func(w http.ResponseWriter, r *http.Request) { <-events })
	script(func(ctx context.Context) { <-ctx.Done() })
	script(func(ctx context.Context) { <-events }) // found
}

// inBubble is called in a bubble.
func inBubble() { time.Sleep(time.Second); <-events }

// loop is a goroutine.
func loop() { <-events }

// process waits. Real time: the process has no other clock.
func process() { time.Sleep(time.Second) }
`
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "p_test.go", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[int]bool)
	for _, f := range slices.Concat(endlessWaits(file), realClocks(file)) {
		found[files.Position(f.at).Line] = true
	}
	for i, line := range strings.Split(source, "\n") {
		if want := strings.HasSuffix(line, "// found"); found[i+1] != want {
			t.Errorf("found is %v: %s", found[i+1], line)
		}
	}
}

// A fault is a place in a test and what is wrong there.
type fault struct {
	at   token.Pos
	text string
}

func endlessWaits(file *ast.File) (found []fault) {
	inspectTest(file, func(n ast.Node, inside place) {
		if inside.bubble || inside.goroutine {
			return
		}
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !inside.choice && !isCall(n.X, "time", "After") && !(inside.context && isDone(n.X)) {
				found = append(found, fault{n.Pos(), "receives without a limit: use await.Receive"})
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if ok && called.Sel.Name == "Wait" && len(n.Args) == 0 && !isCall(n, "synctest", "Wait") {
				found = append(found, fault{n.Pos(), "waits without a limit: use await.Return or await.Result"})
			}
			if isCall(n, "exec", "Command") {
				found = append(found, fault{n.Pos(), "runs a program without a limit: use exec.CommandContext with t.Context() or a deadline"})
			}
		}
	})
	return found
}

// realTime are the functions of package time that make a test depend on how busy the machine is.
var realTime = []string{"Sleep", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

func realClocks(file *ast.File) (found []fault) {
	inspectTest(file, func(n ast.Node, inside place) {
		call, ok := n.(*ast.CallExpr)
		if !ok || inside.bubble || strings.Contains(inside.comment, "Real time:") {
			return
		}
		if called, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(realTime, called.Sel.Name) && isCall(call, "time", called.Sel.Name) {
			found = append(found, fault{n.Pos(), "time." + called.Sel.Name + " in real time: use a synctest bubble or internal/testing/perigeetest/await, or say why in the comment of the function, after \"Real time:\""})
		}
	})
	return found
}

// A place says where in a test a node is.
type place struct {
	bubble    bool   // in the function of synctest.Test
	goroutine bool   // in a goroutine of its own, or in an HTTP handler
	context   bool   // in a function that gets a context
	choice    bool   // a case of select that has another case beside it
	comment   string // the comment of the function
}

// inspectTest calls visit with each node of a file and its place.
func inspectTest(file *ast.File, visit func(ast.Node, place)) {
	for _, decl := range file.Decls {
		inside := place{}
		if f, ok := decl.(*ast.FuncDecl); ok {
			inside.comment = f.Doc.Text()
			inside.bubble = strings.Contains(inside.comment, "bubble")
			inside.goroutine = gets(f.Type, "ResponseWriter") || strings.Contains(inside.comment, "goroutine")
			inside.context = gets(f.Type, "Context")
		}
		inspectIn(decl, inside, visit)
	}
}

func inspectIn(root ast.Node, inside place, visit func(ast.Node, place)) {
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		visit(n, inside)
		switch n := n.(type) {
		case *ast.CallExpr:
			if isCall(n, "synctest", "Test") || isCall(n, "synctest", "Run") {
				in := inside
				in.bubble = true
				inspectIn(n.Args[len(n.Args)-1], in, visit)
				return false
			}
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Go" && len(n.Args) == 1 {
				in := inside
				in.goroutine = true
				inspectIn(n.Args[0], in, visit)
				return false
			}
		case *ast.GoStmt:
			in := inside
			in.goroutine = true
			inspectIn(n.Call, in, visit)
			return false
		case *ast.FuncLit:
			in := inside
			in.goroutine = inside.goroutine || gets(n.Type, "ResponseWriter")
			in.context = inside.context || gets(n.Type, "Context")
			if in != inside {
				inspectIn(n.Body, in, visit)
				return false
			}
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				clause := clause.(*ast.CommClause)
				if clause.Comm != nil {
					in := inside
					in.choice = len(n.Body.List) > 1
					inspectIn(clause.Comm, in, visit)
				}
				for _, statement := range clause.Body {
					inspectIn(statement, inside, visit)
				}
			}
			return false
		}
		return true
	})
}

// gets reports whether a function has a parameter of a type of another package, by the name of the
// type.
func gets(f *ast.FuncType, name string) bool {
	for _, field := range f.Params.List {
		if named, ok := field.Type.(*ast.SelectorExpr); ok && named.Sel.Name == name {
			return true
		}
	}
	return false
}

// isDone reports whether an expression is the end of a context.
func isDone(n ast.Expr) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	return ok && called.Sel.Name == "Done" && len(call.Args) == 0
}

// isCall reports whether an expression calls a function of a package, by the name of its import.
func isCall(n ast.Expr, pkg, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || called.Sel.Name != name {
		return false
	}
	from, ok := called.X.(*ast.Ident)
	return ok && from.Name == pkg
}

// eachTestFile calls visit with each file of tests, and of packages that only tests use.
func eachTestFile(t *testing.T, visit func(*token.FileSet, *ast.File)) {
	t.Helper()
	found := 0
	parseGo(t, func(path string, files *token.FileSet, file *ast.File) {
		top, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		if top == "e2e" || top == "bench" || strings.HasPrefix(file.Name.Name, "await") {
			return // programs, and the package with the limits
		}
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(file.Name.Name, "test") {
			found++
			visit(files, file)
		}
	})
	if found == 0 {
		t.Error("no test was found")
	}
}
