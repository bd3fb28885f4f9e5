package release

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is one that is linked into a program.
type module struct {
	path, version string
	license       string // an SPDX expression
	texts         []text
}

// A text is a license, or a notice that its license demands to pass on.
type text struct{ file, content string }

// A listedPackage is a package as go list describes it.
type listedPackage struct {
	Dir    string
	Module *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// modules returns what is linked into the program for a platform apart from perigee itself, with
// licenses. The standard library is the module std.
func (c *compiler) modules(ctx context.Context, p Platform) ([]module, error) {
	out, err := c.run(ctx, p, "list", "-mod=readonly", "-deps", "-json=Dir,Module", "./cmd/perigee")
	if err != nil {
		return nil, err
	}
	std, err := licensed("std", strings.TrimPrefix(Toolchain, "go"), c.goroot, nil)
	if err != nil {
		return nil, err
	}
	found := map[string]listedPackage{} // one package of each module
	dirs := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listedPackage
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m := pkg.Module; m != nil && !m.Main {
			if m.Replace != nil {
				return nil, fmt.Errorf("go.mod replaces %s: a release has published modules only", m.Path)
			}
			found[m.Path] = pkg
			dirs[m.Path] = append(dirs[m.Path], pkg.Dir)
		}
	}
	all := []module{std}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		m := found[path].Module
		one, err := licensed(m.Path, m.Version, m.Dir, dirs[path])
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

var (
	textFile = regexp.MustCompile(`(?i)licen[cs]e|copying|copyright|notice`)
	// Files that are passed on, but that do not say what the license of the module is: lists of parts
	// that name those of its tests, too.
	sideFile = regexp.MustCompile(`(?i)notice|copyright|3rd|third|logo`)
)

// licensed reads the texts in the root of a module, in the directories of the given packages, and in
// those between.
func licensed(path, version, root string, packages []string) (module, error) {
	m := module{path: path, version: version}
	dirs := map[string]bool{root: true}
	for _, dir := range packages {
		for ; strings.HasPrefix(dir, root) && !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	licenses := map[string]bool{}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return m, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || filepath.Ext(e.Name()) == ".go" || !textFile.MatchString(e.Name()) {
				continue
			}
			ids, err := m.read(root, filepath.Join(dir, e.Name()))
			if err != nil {
				return m, err
			}
			for _, id := range ids {
				licenses[id] = true
			}
		}
	}
	if len(licenses) == 0 {
		return m, fmt.Errorf("%s %s has no license file in %s: find out what its license demands, or do without it", path, version, root)
	}
	m.license = strings.Join(slices.Sorted(maps.Keys(licenses)), " AND ")
	return m, nil
}

// read adds the text of a file, and returns the licenses that it consists of.
func (m *module) read(root, at string) ([]string, error) {
	content, err := os.ReadFile(at)
	if err != nil {
		return nil, err
	}
	name, err := filepath.Rel(root, at)
	if err != nil {
		return nil, err
	}
	name = filepath.ToSlash(name)
	m.texts = append(m.texts, text{name, strings.Trim(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")})
	if sideFile.MatchString(filepath.Base(at)) {
		return nil, nil
	}
	ids := classify(string(content))
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s %s: %s is a license that a release has not had yet: read it, and add it to the table in notice.go", m.path, m.version, name)
	}
	return ids, nil
}

// known are licenses that allow to pass on the program with the texts alone, and phrases that each
// of them has. BSD-3-Clause is BSD-2-Clause with a third clause.
var known = []struct{ id, phrase string }{
	{"Apache-2.0", "apache license version 2.0"},
	{"Apache-2.0", "licensed under the apache license, version 2.0"},
	{"BSD-2-Clause", "redistribution and use in source and binary forms"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"LicenseRef-SQLite-public-domain", "sqlite is public domain"},
}

// demanding are the beginnings of licenses that demand more than their text.
var demanding = regexp.MustCompile(`gnu (lesser |affero |library )?general public license|mozilla public license|eclipse public license|server side public license|business source license`)

// classify returns the SPDX identifiers of the licenses in a text, or nil if it has none that is
// known, or one that demands more than its text.
func classify(content string) []string {
	content = strings.Join(strings.Fields(strings.ToLower(content)), " ")
	if demanding.MatchString(content) {
		return nil
	}
	var ids []string
	for _, k := range known {
		if !strings.Contains(content, k.phrase) {
			continue
		}
		id := k.id
		if id == "BSD-2-Clause" && strings.Contains(content, "to endorse or promote products derived") {
			id = "BSD-3-Clause"
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// notice returns the file NOTICE of an archive: every module with its license, and every text once.
func notice(version string, modules []module) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "perigee %s is licensed under the Apache License, Version 2.0; LICENSE has its text.\n\n", version)
	fmt.Fprintf(&out, "The program contains the parts below. Their licenses and notices follow the list.\n\n")
	owners, order := map[[32]byte][]string{}, []text(nil)
	for _, m := range modules {
		fmt.Fprintf(&out, "  %s %s (%s)\n", m.path, m.version, m.license)
		for _, t := range m.texts {
			key := sha256.Sum256([]byte(t.content))
			if owners[key] == nil {
				order = append(order, t)
			}
			owners[key] = append(owners[key], fmt.Sprintf("%s %s: %s", m.path, m.version, t.file))
		}
	}
	for _, t := range order {
		fmt.Fprintf(&out, "\n%s\n", strings.Repeat("=", 78))
		for _, owner := range owners[sha256.Sum256([]byte(t.content))] {
			fmt.Fprintln(&out, owner)
		}
		fmt.Fprintf(&out, "%s\n\n%s\n", strings.Repeat("=", 78), t.content)
	}
	return out.Bytes()
}
