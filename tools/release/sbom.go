package release

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom returns the list of parts of a program in the JSON format of CycloneDX 1.6. The parts are
// those that the program itself names, each with its license. It has no serial number and no time:
// the same program has the same list.
func sbom(version, binary string, modules []module) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	root := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: "perigee", Name: "perigee", Version: version,
		Licenses: licenses("Apache-2.0"),
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash[:])}}}
	var properties []cdx.Property
	for _, s := range info.Settings {
		properties = append(properties, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	root.Properties = &properties

	sums := map[string]string{"std": ""}
	for _, dep := range info.Deps {
		sums[dep.Path+" "+dep.Version] = dep.Sum
	}
	if len(sums) != len(modules) {
		return nil, fmt.Errorf("the program has %d modules, and there are licenses of %d", len(sums), len(modules))
	}
	var parts []cdx.Component
	var refs []string
	for _, m := range modules {
		part := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: purl(m), Licenses: licenses(m.license)}
		if m.path == "std" {
			if got := strings.TrimPrefix(info.GoVersion, "go"); got != m.version {
				return nil, fmt.Errorf("the program was compiled with Go %s, and the licenses are those of %s", got, m.version)
			}
		} else {
			sum, ok := sums[m.path+" "+m.version]
			if !ok {
				return nil, fmt.Errorf("%s %s is not in the program", m.path, m.version)
			}
			part.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
		}
		part.BOMRef = part.PackageURL
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &root}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return out.Bytes(), err
}

// licenses returns the form that CycloneDX has for an SPDX expression.
func licenses(expression string) *cdx.Licenses {
	if strings.Contains(expression, " ") || strings.HasPrefix(expression, "LicenseRef-") {
		return &cdx.Licenses{{Expression: expression}}
	}
	return &cdx.Licenses{{License: &cdx.License{ID: expression}}}
}

// purl returns the package URL of a module, by which scanners know it.
func purl(m module) string {
	return "pkg:golang/" + strings.ReplaceAll(m.path, "+", "%2B") + "@" + strings.ReplaceAll(m.version, "+", "%2B")
}
