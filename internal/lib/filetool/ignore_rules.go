package filetool

import (
	"path"
	"strings"
)

// ignoreRules are the rules of a directory and of the directories above it, up to the root. Nil
// rules ignore nothing. As in git, the rules of a repository inside another one replace the rules
// of the outer one.
type ignoreRules struct {
	above      *ignoreRules
	offset     int    // the length of the directory's path and its slash
	own        []rule // of .ignore
	git        []rule // of .gitignore
	repository bool   // the directory is the top directory of a git repository
	exclude    []rule // of .git/info/exclude
}

// ignored reports whether a file is left out. name is its path from the root, in the directory that
// r is for. The directories above it are not considered: a listing does not enter ignored
// directories.
func (r *ignoreRules) ignored(name string, isDir bool) bool {
	for level := r; level != nil; level = level.above {
		if ignored, known := match(level.own, name[level.offset:], isDir); known {
			return ignored
		}
	}
	for level := r; level != nil; level = level.above {
		if ignored, known := match(level.git, name[level.offset:], isDir); known {
			return ignored
		}
		if level.repository {
			ignored, _ := match(level.exclude, name[level.offset:], isDir)
			return ignored
		}
	}
	return false
}

// A rule is one line of an ignore file.
type rule struct {
	pattern string
	literal int // length of the part before the first special character
	negated bool
	dirOnly bool
	// anchored patterns match the path below the directory of the file, other patterns match base
	// names.
	anchored bool
}

func parse(text string) (rules []rule) {
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\r"), "\x00")
		if line = trimSpaces(line); line == "" {
			continue
		}
		r := rule{}
		r.pattern, r.negated = strings.CutPrefix(line, "!")
		r.pattern, r.dirOnly = strings.CutSuffix(r.pattern, "/")
		r.anchored = strings.Contains(r.pattern, "/")
		r.pattern = strings.TrimPrefix(r.pattern, "/")
		if r.literal = strings.IndexAny(r.pattern, `*?[\`); r.literal < 0 {
			r.literal = len(r.pattern)
		}
		rules = append(rules, r)
	}
	return rules
}

// trimSpaces removes the spaces at the end of a line, unless a backslash is before them.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
		} else if line[i] == ' ' {
			continue
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// match reports whether the rules ignore a file; known is false if no rule matches. rel is its path
// below the directory of the ignore file.
func match(rules []rule, rel string, isDir bool) (ignored, known bool) {
	for i := len(rules) - 1; i >= 0; i-- {
		r := &rules[i]
		if r.dirOnly && !isDir {
			continue
		}
		name := rel
		if !r.anchored {
			name = path.Base(rel)
		}
		if !strings.HasPrefix(name, r.pattern[:r.literal]) {
			continue
		}
		rest, name := r.pattern[r.literal:], name[r.literal:]
		if rest == "" && name == "" || rest != "" && wildmatch(rest, name) {
			return !r.negated, true
		}
	}
	return false, false
}
