package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one operator of a file and what replaces it.
type mutant struct {
	path         string
	line, column int
	offset       int
	from, to     string
}

func (m mutant) position() string {
	path := m.path
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, path); err == nil {
			path = relative
		}
	}
	return fmt.Sprintf("%s:%d:%d", path, m.line, m.column)
}

// apply returns the file with the change. Lines stay where they are.
func (m mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.offset], []byte(m.to), source[m.offset+len(m.from):])
}

// replacements has the operators that replace an operator. Each keeps the types of the expression.
var replacements = map[token.Token][]token.Token{
	token.LAND: {token.LOR},
	token.LOR:  {token.LAND},
	token.EQL:  {token.NEQ},
	token.NEQ:  {token.EQL},
	token.LSS:  {token.LEQ, token.GEQ},
	token.LEQ:  {token.LSS, token.GTR},
	token.GTR:  {token.GEQ, token.LEQ},
	token.GEQ:  {token.GTR, token.LSS},

	token.ADD: {token.SUB},
	token.SUB: {token.ADD},
	token.MUL: {token.QUO},
	token.QUO: {token.MUL},
	token.REM: {token.QUO},
	token.AND: {token.OR},
	token.OR:  {token.AND},
	token.SHL: {token.SHR},
	token.SHR: {token.SHL},

	token.INC:        {token.DEC},
	token.DEC:        {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN},
	token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN},
	token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.OR_ASSIGN:  {token.AND_ASSIGN},
	token.AND_ASSIGN: {token.OR_ASSIGN},

	token.BREAK:    {token.CONTINUE},
	token.CONTINUE: {token.BREAK},
}

// mutantsOf returns the changes of a file, in the order of its text. Generated files have none.
func mutantsOf(path string, source []byte) ([]mutant, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []mutant
	add := func(at token.Pos, from string, to ...string) {
		position := files.Position(at)
		for _, to := range to {
			found = append(found, mutant{path: path, line: position.Line, column: position.Column, offset: position.Offset, from: from, to: to})
		}
	}
	operator := func(at token.Pos, op token.Token) {
		for _, other := range replacements[op] {
			add(at, op.String(), other.String())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.ADD || !isText(n.X) && !isText(n.Y) {
				operator(n.OpPos, n.Op)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add(n.OpPos, "!", " ")
			}
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			if n.Tok != token.ADD_ASSIGN || !isText(n.Rhs[0]) {
				operator(n.TokPos, n.Tok)
			}
		case *ast.BranchStmt:
			if n.Label == nil {
				operator(n.TokPos, n.Tok)
			}
		case *ast.Ident:
			switch n.Name {
			case "true":
				add(n.Pos(), "true", "false")
			case "false":
				add(n.Pos(), "false", "true")
			}
		}
		return true
	})
	slices.SortStableFunc(found, func(a, b mutant) int { return a.offset - b.offset })
	return found, nil
}

// isText reports whether an expression has a string literal, so that it can be added but not
// subtracted.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isText(e.X) || isText(e.Y))
	case *ast.ParenExpr:
		return isText(e.X)
	case *ast.CallExpr:
		name, ok := e.Fun.(*ast.Ident)
		return ok && strings.EqualFold(name.Name, "string")
	}
	return false
}
