//go:build !amd64

package rawjson

func waysToMark() map[string]func(*[64]byte, *marks) {
	return map[string]func(*[64]byte, *marks){"markWords": markWords}
}
