package rawjson

func waysToMark() map[string]func(*[64]byte, *marks) {
	ways := map[string]func(*[64]byte, *marks){"markWords": markWords, "markBlockSSE2": markBlockSSE2}
	if hasAVX2 {
		ways["markBlockAVX2"] = markBlockAVX2
	}
	return ways
}
