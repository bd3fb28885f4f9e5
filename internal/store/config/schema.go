package config

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (2020-12) of the file, for editors and for `perigee config
// schema`. Rules that involve several values are only in Load.
func Schema() []byte { return schema }
