//go:build !race

package rawjson_test

const underRace = false
