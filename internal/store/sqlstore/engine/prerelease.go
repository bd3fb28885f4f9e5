package engine

// A database of the last pre-release schema has the tables of the first migration already, which
// the fourteen migrations before it made, and a table responses, which nothing has written to since
// the tenth. This file is for such databases alone. With version 1.0 it is deleted, together with
// the calls of its two functions and with prerelease_test.go.

// prereleaseVersion is the last version that was recorded by one of these fourteen migrations.
const prereleaseVersion = 14

// fromPrerelease reports whether a database has the tables of the first step although its version
// is lower. Other databases of pre-releases are refused.
func fromPrerelease(version int, steps []migration) bool {
	return version == prereleaseVersion && steps[0].version == prereleaseVersion+1
}

// prereleaseStep returns the step that replaces the first one in such a database. The table
// schema_version is created anew: it has no column compatible_with in databases that have reached
// their version before there was one.
func prereleaseStep(first migration) migration {
	first.sql = `DROP TABLE responses; DROP TABLE schema_version; ` + createSchemaVersion
	return first
}
